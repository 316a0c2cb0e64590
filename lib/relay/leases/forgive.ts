import type { Clock } from '../../time/clock.js';
import type { Lease, LeaseStore } from '../../store/lease-store.js';
import type { Held, LeaseSettings } from './lease-listener.js';

interface Holding {
  readonly held: ReadonlyMap<number, ReadonlyMap<number, Held>>;
  readonly store: Pick<LeaseStore, 'lasted'>;
  readonly clock: Clock;
  readonly owner: string;
  readonly settings: Pick<LeaseSettings, 'lease'>;
}

/** Whoever has held a lease for as long as it takes to lose one does not die of it. */
export async function forgive({ held: all, store, clock, owner, settings }: Holding): Promise<void> {
  const lasted: Held[] = [];
  const leases: Lease[] = [];
  for (const [transport, buckets] of all) {
    for (const [bucket, held] of buckets) {
      if (held.crashes === 0 || clock.monotonic() - held.since < settings.lease) continue;
      lasted.push(held);
      leases.push({ transport, bucket, epoch: held.epoch });
    }
  }
  if (leases.length === 0) return;
  await store.lasted(owner, leases);
  for (const held of lasted) held.crashes = 0;
}
