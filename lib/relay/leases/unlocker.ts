import type { OutboxHooks } from '../../observe/events.js';
import type { LeaseStore } from '../../store/lease-store.js';
import { tellExpired } from './lease-news.js';

/**
 * Frees what dead instances held, and reports it. It never shortens a lease: only what the database's clock calls expired
 * is cleared. Relays take expired buckets by themselves; this is for the report, and for instances that never come back.
 */
export class OutboxUnlocker {
  /** @internal */
  constructor(
    /** @internal */ readonly store: Pick<LeaseStore, 'expire'>,
    /** @internal */ readonly hooks: OutboxHooks,
  ) {}

  /** @returns how many leases were freed */
  async runOnce(): Promise<{ expired: number }> {
    const leases = await this.store.expire();
    tellExpired(
      this.hooks,
      leases.map(({ owner }) => owner),
    );
    return { expired: leases.length };
  }
}
