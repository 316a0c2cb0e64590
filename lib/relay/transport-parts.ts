import type { BucketLeases } from './leases/bucket-leases.js';
import type { ReadCost } from './read/snapshot-watch.js';
import type { OutboxHooks } from '../observe/events.js';
import type { ResolvedOptions } from '../outbox.options.js';
import { LEASE_MARGIN, SETTLE_TIMEOUT } from '../options/resolve.js';
import { Publisher } from './publish/publisher.js';
import type { ExpectedMessages, OutboxTransport, TransportStateListener } from '../transports/transport.js';
import type { OutboxStore } from '../store/outbox-store.js';
import type { Clock } from '../time/clock.js';

/** A relay publishes in the order of `seq`. `strict` decides only how `seq` is given out. */
export interface TransportRelayOptions extends ResolvedOptions {
  readonly ordering: Exclude<ResolvedOptions['ordering'], 'strict'>;
}

/** @typeParam Store the roles of the store that a part asks for; `unknown`: none */
export interface TransportRelayDependencies<Store = OutboxStore> {
  readonly name: string;
  readonly id: number;
  readonly transport: OutboxTransport;
  readonly store: Store;
  readonly leases: BucketLeases;
  readonly options: TransportRelayOptions;
  readonly clock: Clock;
  readonly random: () => number;
  readonly hooks: OutboxHooks;
  /** Something died: the dead-letter hook has work. */
  readonly died: () => void;
  /** Told what reading takes. */
  readonly cost?: ReadCost;
  /** Where its messages will go, as far as that is known before there is one. */
  readonly expected?: () => readonly ExpectedMessages[];
  /** Rejects while nothing of this database may be published. Leases ask by themselves. */
  readonly admitted?: () => Promise<void>;
}

export function publisherOf(
  { transport, clock, options }: TransportRelayDependencies<unknown>,
  onState: TransportStateListener,
): Publisher {
  return new Publisher(transport, clock, options.publishTimeout, onState);
}

export function transportRelayOptions(options: ResolvedOptions): TransportRelayOptions {
  const { ordering } = options;
  return { ...options, ordering: ordering === 'strict' ? 'key' : ordering };
}

/**
 * Milliseconds that a lease must be good for when a publish starts: it ends before the lease does, and leaves some time to settle
 * it. A settle may take longer than that; after the lease it is fenced, all but success, and the next owner may publish once more.
 */
export function timeOfOne({ publishTimeout }: ResolvedOptions): number {
  return publishTimeout + SETTLE_TIMEOUT + LEASE_MARGIN;
}

/** What a step found that did nothing. */
export const IDLE = { read: 0, more: false };
export const NONE_TAKEN: { taken: number; nextIn: number | null } = { taken: 0, nextIn: null };
