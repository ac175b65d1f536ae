/** A cache that keeps the most recently used entries. A Map remembers the order of insertion. */
export class LruCache<K, V> {
  private readonly entries = new Map<K, V>();
  private hits = 0;
  private misses = 0;

  constructor(private readonly capacity: number) {
    if (capacity < 1) {
      throw new RangeError(`capacity must be at least 1, not ${capacity}`);
    }
  }

  get size(): number {
    return this.entries.size;
  }

  /** Share of the look-ups that found something, 0 to 1. */
  get hitRate(): number {
    const total = this.hits + this.misses;
    return total === 0 ? 0 : this.hits / total;
  }

  get(key: K): V | undefined {
    const value = this.entries.get(key);
    if (value === undefined) {
      this.misses += 1;
      return undefined;
    }
    this.hits += 1;
    this.entries.delete(key);
    this.entries.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    this.entries.delete(key);
    this.entries.set(key, value);
    if (this.entries.size > this.capacity) {
      const oldest = this.entries.keys().next().value as K;
      this.entries.delete(oldest);
    }
  }

  clear(): void {
    this.entries.clear();
  }
}
