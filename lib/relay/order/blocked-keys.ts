import type { KeyInBucket } from '../../store/parked-store.js';
import type { TransportRelayDependencies } from '../transport-parts.js';

/**
 * Keys of the leased buckets that have a blocking row in the parked table: their ready rows are parked on sight. Bounded: past
 * `limit` keys, `overflow` says that the store has to be asked about a key which is not in here.
 *
 * Of some that can go on nobody says so: an operator or the cleaner removed what blocked them, and there was nothing behind it that could
 * be woken. What comes later is parked behind nothing, and asked for at the next poll; all others are asked for in turn, a few at each poll.
 */
export class BlockedKeys {
  readonly buckets = new Map<number, Set<string>>();
  size = 0;
  overflow = false;
  /** Times that one found no place. */
  dropped = 0;
  /** Keys behind whose rows a message was parked since: whether those are still there is asked before it is the key's turn. */
  readonly behind = new Map<string, KeyInBucket>();
  private askedAt = -Infinity;
  /** Where `next` goes on. */
  private readonly cursor = { bucket: -1, index: 0 };

  constructor(
    readonly relay: Pick<TransportRelayDependencies<unknown>, 'clock' | 'options'>,
    readonly isFree: (key: string) => boolean,
    readonly limit = 50_000,
  ) {}

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
    for (const [key, at] of this.behind) if (at.bucket === bucket) this.behind.delete(key);
  }

  /** A message of this key is parked behind others. */
  parkedBehind(bucket: number, key: string): void {
    if (this.behind.size < this.limit) this.behind.set(key, { bucket, key });
  }

  /** Once per poll, of the buckets that are held: half of `limit` at most in turn, and those behind which something was parked. */
  toAsk(limit: number, held: ReadonlySet<number>): { inTurn: KeyInBucket[]; behind: KeyInBucket[] } {
    const now = this.relay.clock.monotonic();
    if (now - this.askedAt < this.relay.options.pollInterval) return { inTurn: [], behind: [] };
    this.askedAt = now;
    const mayAsk = ({ bucket, key }: KeyInBucket): boolean => held.has(bucket) && this.isFree(key);
    const behind: KeyInBucket[] = [];
    for (const at of this.behind.values()) {
      if (behind.length >= ASK_BEHIND) break;
      if (!mayAsk(at)) continue;
      this.behind.delete(at.key);
      behind.push(at);
    }
    return { inTurn: this.next(Math.min(ASK_IN_TURN, Math.ceil(limit / 2))).filter(mayAsk), behind };
  }

  /** Up to `count` keys, another part of them at every call. */
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

/** Blocked keys that are asked for, once per poll, although nothing says that they can go on. */
const ASK_IN_TURN = 50;
/** And of those behind which something was parked. */
const ASK_BEHIND = 250;
