import type { KeyInBucket } from '../../store/parked-store.js';

interface Cursor {
  bucket: number;
  index: number;
}

/**
 * Keys of the leased buckets that have a blocking row in the parked table: their ready rows are parked on sight. Bounded:
 * past `limit` keys, `overflow` says that a key which is not in here has to be asked for. What is asked for, and what is
 * parked now, comes on top, and pushes out the oldest beyond twice the limit, but for those of messages at hand and of rows
 * that are being taken.
 */
export class ParkedKeys {
  readonly buckets = new Map<number, Set<string>>();
  size = 0;
  overflow = false;
  /** Keys that found no place, or lost it. */
  dropped = 0;
  atHand: ReadonlySet<string> = new Set();
  readonly beingTaken = new Set<string>();
  /** Where `next` goes on, of each of those who go round. */
  readonly recheck: Cursor = { bucket: -1, index: 0 };
  readonly look: Cursor = { bucket: -1, index: 0 };

  constructor(readonly limit = 50_000) {}

  add(bucket: number, key: string): void {
    if (this.size < this.limit || this.has(bucket, key)) return this.addBeyond(bucket, key);
    this.overflow = true;
    this.dropped += 1;
  }

  /** Until the next call, nothing pushes these out: who is asked for some must not lose those that need no question. */
  keep(keys: ReadonlySet<string>): void {
    this.atHand = keys;
    this.shrink();
  }

  /** A due row of this key is being taken. Until the store has marked it, only this here knows that it blocks its key. */
  keepWhileTaken(bucket: number, key: string): void {
    this.beingTaken.add(key);
    this.addBeyond(bucket, key);
  }

  /** They are marked in the store, or stay where they are. */
  taken(): void {
    this.beingTaken.clear();
    this.shrink();
  }

  /** What was kept for those before. */
  private shrink(): void {
    while (this.size > this.limit * 2 + this.atHand.size + this.beingTaken.size && this.evict());
  }

  /** For keys of messages at hand, which are parked at once. */
  addBeyond(bucket: number, key: string): void {
    if (this.has(bucket, key)) return;
    if (this.size >= this.limit * 2) this.evict();
    const keys = this.buckets.get(bucket);
    if (keys === undefined) this.buckets.set(bucket, new Set([key]));
    else keys.add(key);
    this.size += 1;
  }

  has(bucket: number, key: string): boolean {
    return this.size > 0 && this.buckets.get(bucket)?.has(key) === true;
  }

  delete(bucket: number, key: string): void {
    if (this.buckets.get(bucket)?.delete(key) === true) this.size -= 1;
  }

  /** The oldest of the bucket with the most, if it is of no message at hand and of no row that is being taken. */
  private evict(): boolean {
    for (const [bucket, keys] of [...this.buckets].sort(([, a], [, b]) => b.size - a.size)) {
      for (const key of keys) {
        if (this.atHand.has(key) || this.beingTaken.has(key)) continue;
        this.overflow = true;
        this.dropped += 1;
        this.delete(bucket, key);
        return true;
      }
    }
    return false;
  }

  forget(bucket: number): void {
    this.size -= this.buckets.get(bucket)?.size ?? 0;
    this.buckets.delete(bucket);
  }

  /**
   * Up to `count` keys, another part of them at every call: an operator may have removed what blocks a key, and then
   * nothing else would tell.
   */
  next(count: number, cursor: Cursor): KeyInBucket[] {
    const out: KeyInBucket[] = [];
    const order = [...this.buckets.keys()];
    const start = Math.max(0, order.indexOf(cursor.bucket));
    for (let step = 0; step <= order.length && out.length < count; step += 1) {
      const bucket = order[(start + step) % order.length] as number;
      const keys = [...(this.buckets.get(bucket) ?? [])];
      const from = step === 0 && bucket === cursor.bucket ? cursor.index : 0;
      for (let index = from; index < keys.length && out.length < count; index += 1) {
        out.push({ bucket, key: keys[index] as string });
        [cursor.bucket, cursor.index] = [bucket, index + 1];
      }
    }
    return out.length > this.size ? out.slice(0, this.size) : out;
  }
}
