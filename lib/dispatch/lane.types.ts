import type { BucketLeases } from '../claim/bucket-leases.js';
import type { OutboxHooks } from '../observe/events.js';
import type { ResolvedOptions } from '../outbox.options.js';
import { LEASE_MARGIN, SETTLE_TIMEOUT } from '../resolve-options.js';
import type { OutboxTransport } from '../publish/transport.js';
import type { OutboxStore } from '../store/outbox-store.js';
import type { Clock } from './clock.js';

export interface LaneDependencies {
  readonly name: string;
  readonly id: number;
  readonly transport: OutboxTransport;
  readonly store: OutboxStore;
  readonly leases: BucketLeases;
  readonly options: ResolvedOptions;
  readonly clock: Clock;
  readonly random: () => number;
  readonly hooks: OutboxHooks;
  /** Something died: the dead-letter hook has work. */
  readonly died: () => void;
}

/** Milliseconds that a lease must be good for when a publish starts: it ends, and is settled, before the lease does. */
export function timeOfOne({ publishTimeout }: ResolvedOptions): number {
  return publishTimeout + SETTLE_TIMEOUT + LEASE_MARGIN;
}
