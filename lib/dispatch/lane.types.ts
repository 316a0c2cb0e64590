import type { BucketLeases } from '../claim/bucket-leases.js';
import type { OutboxHooks } from '../observe/events.js';
import type { ResolvedOptions } from '../outbox.options.js';
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
