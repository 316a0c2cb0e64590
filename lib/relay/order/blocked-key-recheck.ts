import type { ParkedKeys } from './parked-keys.js';
import type { KeyInBucket } from '../../store/parked-store.js';
import type { TransportRelayDependencies } from '../relay.types.js';

/**
 * Blocked keys that can go on, and nobody says so: an operator or the cleaner removed what blocked them, and there was nothing
 * behind it that could be woken. What comes later is parked behind nothing, and asked for at the next poll; all others are asked for
 * in turn, a few at each poll.
 */
export class BlockedKeyRecheck {
  /** Keys behind whose rows a message was parked since: whether those are still there is asked before it is the key's turn. */
  readonly behind = new Map<string, KeyInBucket>();
  recheckedAt = -Infinity;

  constructor(
    readonly relay: Pick<TransportRelayDependencies<unknown>, 'clock' | 'options'>,
    readonly keys: ParkedKeys,
    readonly isFree: (key: string) => boolean,
  ) {}

  /** A message of this key is parked behind others. */
  parkedBehind(bucket: number, key: string): void {
    if (this.behind.size < this.keys.limit) this.behind.set(key, { bucket, key });
  }

  forget(bucket: number): void {
    for (const [key, at] of this.behind) if (at.bucket === bucket) this.behind.delete(key);
  }

  /** Those to ask for: half of `limit` at most in turn, and behind which something was parked. */
  toAsk(limit: number, held: ReadonlySet<number>): { inTurn: KeyInBucket[]; behind: KeyInBucket[] } {
    const now = this.relay.clock.monotonic();
    if (now - this.recheckedAt < this.relay.options.pollInterval) return { inTurn: [], behind: [] };
    this.recheckedAt = now;
    const inTurn = this.keys.next(Math.min(RECHECK, Math.ceil(limit / 2)));
    const behind: KeyInBucket[] = [];
    for (const at of this.behind.values()) {
      if (behind.length >= ASK_BEHIND) break;
      if (!this.mayAsk(at, held)) continue;
      this.behind.delete(at.key);
      behind.push(at);
    }
    return { inTurn: inTurn.filter((at) => this.mayAsk(at, held)), behind };
  }

  private mayAsk({ bucket, key }: KeyInBucket, held: ReadonlySet<number>): boolean {
    return held.has(bucket) && this.isFree(key);
  }
}

/** Blocked keys that are asked for, once per poll, although nothing says that they can go on. */
const RECHECK = 50;
/** And of those behind which something was parked. */
const ASK_BEHIND = 250;
