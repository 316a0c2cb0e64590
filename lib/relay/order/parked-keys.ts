import type { KeyInBucket } from '../../store/parked-store.js';

/**
 * Keys of the leased buckets that have a blocking row in the parked table: their ready rows are parked on sight. Bounded: past
 * `limit` keys, `overflow` says that the store has to be asked about a key which is not in here.
 */
export class ParkedKeys {
  readonly buckets = new Map<number, Set<string>>();
  size = 0;
  overflow = false;
  /** Times that one found no place. */
  dropped = 0;
  /** Where `next` goes on. */
  private readonly cursor = { bucket: -1, index: 0 };

  constructor(readonly limit = 50_000) {}

  add(bucket: number, key: string): void {
    if (this.has(bucket, key)) return;
    if (this.size >= this.limit) {
      this.overflow = true;
      this.dropped += 1;
      return;
    }
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

  forget(bucket: number): void {
    this.size -= this.buckets.get(bucket)?.size ?? 0;
    this.buckets.delete(bucket);
  }

  /**
   * Up to `count` keys, another part of them at every call: an operator may have removed what blocks a key, and then
   * nothing else would tell.
   */
  next(count: number): KeyInBucket[] {
    const { cursor } = this;
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
