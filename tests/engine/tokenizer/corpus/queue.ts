export interface Job<T> {
  readonly id: string;
  priority: number;
  run(signal: AbortSignal): Promise<T>;
}

type Listener<T> = (result: T | Error, job: Job<T>) => void;

export class JobQueue<T = unknown> {
  private readonly waiting: Job<T>[] = [];
  private readonly listeners = new Set<Listener<T>>();
  private active?: AbortController;

  constructor(private readonly limit = 16) {}

  push(job: Job<T>): boolean {
    if (this.waiting.length >= this.limit) return false;
    const at = this.waiting.findIndex((other) => other.priority < job.priority);
    this.waiting.splice(at < 0 ? this.waiting.length : at, 0, job);
    void this.drain();
    return true;
  }

  cancel(): void {
    this.active?.abort();
    this.waiting.length = 0;
  }

  private async drain(): Promise<void> {
    if (this.active) return;
    while (this.waiting.length > 0) {
      const job = this.waiting.shift()!;
      this.active = new AbortController();
      try {
        const result = await job.run(this.active.signal);
        this.listeners.forEach((listener) => listener(result, job));
      } catch (error) {
        console.error(`job ${job.id} failed: ${String(error)}`);
      }
    }
    this.active = undefined;
  }
}
