import type { SeenRelay } from '../observe/seen-relays.js';
import { BUCKET_READY_LIMIT, type BucketRow } from '../store/inspect-store.js';
import { nameOf } from './found-message.js';

/** One bucket of one transport, and who publishes from it. */
export interface BucketState {
  readonly transport: string;
  readonly bucket: number;
  /**
   * `leased`: an instance publishes from it. `free`: nobody has it. `expired`: its lease ran out, and nobody took it yet.
   * `missing`: it has no lease row, or the row is hidden from this login. With `coordination: 'rowLock'` nothing is leased.
   */
  readonly lease: 'leased' | 'free' | 'expired' | 'missing';
  /** The instance that has the lease, or had it when it ran out. */
  readonly owner: string | null;
  /** Host and pid of a live owner. */
  readonly place: string | null;
  /** Whether the owner was heard of lately. */
  readonly ownerIsAlive: boolean;
  readonly epoch: string | null;
  readonly expiresAt: Date | null;
  /** Counted up to 1,000; then `readyIsExact` is false. */
  readonly ready: number;
  readonly readyIsExact: boolean;
  readonly oldestReadyAt: Date | null;
}

export function bucketStates(
  rows: readonly BucketRow[],
  names: ReadonlyMap<number, string>,
  relays: readonly SeenRelay[],
): BucketState[] {
  const living = new Map(relays.flatMap((relay) => (relay.state === 'live' ? [[relay.owner, relay]] : [])));
  return rows.map(({ transport, bucket, lease, ready, oldestReadyAt }) => {
    const owner = lease?.owner ?? null;
    const relay = owner === null ? undefined : living.get(owner);
    return {
      transport: nameOf(transport, names),
      bucket,
      lease: lease === null ? 'missing' : lease.isLive ? 'leased' : owner === null ? 'free' : 'expired',
      owner,
      place: relay?.place ?? null,
      ownerIsAlive: relay !== undefined,
      epoch: lease?.epoch ?? null,
      expiresAt: owner === null ? null : (lease?.expiresAt ?? null),
      ready,
      readyIsExact: ready < BUCKET_READY_LIMIT,
      oldestReadyAt,
    };
  });
}
