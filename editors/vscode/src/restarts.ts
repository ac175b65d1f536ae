/** Waits before the restarts after stops in a row; after the last one the server stays off. */
const DELAYS_MS = [500, 1000, 2000, 4000, 8000];
/** A server that ran this long had no part in a row of stops. */
const STEADY_MS = 60_000;

/** Decides whether a server that stopped by itself is started again, and when. */
export class Restarts {
  private stops = 0;
  private startedAt = 0;

  started(nowMs: number): void {
    this.startedAt = nowMs;
  }

  /** The wait before the next start in milliseconds, or undefined to give up; `first` of a row is worth telling. */
  stopped(nowMs: number): { delayMs: number | undefined; first: boolean; stops: number } {
    if (nowMs - this.startedAt > STEADY_MS) {
      this.stops = 0;
    }
    const delayMs = DELAYS_MS[this.stops];
    this.stops += 1;
    return { delayMs, first: this.stops === 1, stops: this.stops };
  }

  reset(): void {
    this.stops = 0;
  }
}
