import type { Blame } from '../transports/transport.js';

interface RelayEvent {
  /** The same on everything that one relay tells from its start to its stop: a random id per start. */
  readonly runId?: string;
}

interface BatchEvent extends RelayEvent {
  /** Which batch it was part of: 1 for the first that was made for its transport since the start of the relay. Absent: it was in none. */
  readonly batch?: number;
}

/** Everything the outbox tells about itself. Names and fields are stable; new fields may appear. */
export interface OutboxEventMap {
  /** After the commit of the transaction, one per transaction. */
  enqueued: { ids: readonly string[] };
  /** Messages that were not written, because their `dedupKey` was known: the ids of those that have it. After the commit, too. */
  deduplicated: { ids: readonly string[] };
  /** One per settled batch: the broker has them and the outbox knows it. */
  published: RelayEvent & {
    transport: string;
    ids: readonly string[];
    /** Numbers of the batches in which they were, each once: see `batch` of `failed`. */
    batches: readonly number[];
    /** Those of `ids` that waited for their `deliverAt` or `delay`; absent: none did. */
    scheduled?: readonly string[];
  };
  /** A `message` failure that will be tried again. */
  retried: BatchEvent & {
    transport: string;
    id: string;
    type: string;
    topic: string;
    attempts: number;
    delay: number;
    error: string;
  };
  /** A message is dead, after commit. */
  dead: BatchEvent & { transport: string; id: string; type: string; topic: string; attempts: number; error: string };
  /** Messages of one batch failed alike, `exampleId` among them; `blame` says whose fault it was. */
  failed: BatchEvent & { transport: string; count: number; exampleId: string; blame: Blame; error: string };
  /** The transport was reached for the first time since the start of the relay; what comes back later is `circuitClosed`. */
  connected: RelayEvent & {
    transport: string;
    took: number;
    /** `kafka`, `rabbitmq`, `client-proxy`, or a custom name. */
    kind: string;
    /** Hosts and ports without credentials, where the options name them. */
    broker?: string;
  };
  /** The first message of a transport since the start of the relay that the broker has. */
  firstPublished: RelayEvent & { transport: string; id: string; type: string; topic: string };
  circuitOpened: RelayEvent & { transport: string; error: string; retryIn: number };
  /** A destination takes nothing (it is missing, full, or not allowed), while others of the transport may: its messages wait. Or it was found missing at the start. */
  destinationAway: RelayEvent & { transport: string; destination: string; error: string };
  /** A message got through to it, it was found, or nobody asked for it for 3 minutes; `putOff`: how often a message was put off meanwhile. */
  destinationBack: RelayEvent & { transport: string; destination: string; awayFor: number; putOff: number };
  circuitClosed: RelayEvent & { transport: string; openFor: number };
  /**
   * An operator paused the transport, or a topic or key of it (`null`: all), for all instances: by whom and why, as the audit says it, and
   * since when by the database's clock.
   */
  paused: RelayEvent & {
    transport: string;
    topic: string | null;
    key: string | null;
    by: string;
    reason: string;
    since: Date;
  };
  /** That pause is over; the fields are those of the pause. */
  resumed: OutboxEventMap['paused'];
  leasesAcquired: RelayEvent & { transport: string; buckets: readonly number[] };
  /** Lost, not given back: expired or taken over. */
  leasesLost: RelayEvent & { transport: string; buckets: readonly number[] };
  /**
   * Once, at the start, when others hold buckets that this instance wants: how many, who (ids of instances; host and pid, of those that are
   * still heard of), and in how many milliseconds the last of these leases runs out unless it is renewed. Instances that live give back what
   * is more than their share.
   */
  leasesHeld: {
    buckets: number;
    owners: readonly string[];
    places: readonly string[];
    runOutIn: number;
  };
  /** What an instance held was taken over or freed when its leases had run out: it is dead, or was cut off from the database. */
  leasesExpired: { owner: string; buckets: number };
  /**
   * A session, a replication slot or a prepared transaction holds an old snapshot, and reads walk over rows that cannot be removed
   * for it; milliseconds. `snapshotReleased`: it no longer does.
   */
  snapshotHeld: RelayEvent & { server: string; table: string; holder: string; heldFor: number };
  snapshotReleased: RelayEvent & { server: string; table: string; holder: string; heldFor: number };
  cleaned: { published: number; dead: number; dedup: number };
  /** The maintainer of partitions begins a change of the archive. `partition`: its name; `null`: the catch-all, or the whole table. */
  partitionChange: { change: 'create' | 'drop' | 'setAside' | 'convert'; partition: string | null };
  /** The end of each of its passes: see `PartitionReport`. */
  partitionsMaintained: {
    outcome: 'done' | 'skipped';
    why: string | null;
    created: readonly string[];
    dropped: readonly string[];
    moved: number;
    removed: number;
    notDone: readonly { change: 'create' | 'drop' | 'setAside' | 'move'; partition: string | null; why: string }[];
  };
  started: { role: 'relay' | 'manual' | 'enqueue-only'; transports: readonly string[]; buckets: number };
  stopped: RelayEvent & { released: boolean; took: number };
  /** A stage failed and will try again by itself. */
  error: RelayEvent & { operation: OutboxOperation; error: unknown; retryIn: number | null };
  /** Something that weakens a promise, once. */
  warning: { text: string };
}
export type OutboxEventName = keyof OutboxEventMap;
export type OutboxOperation =
  | 'fetch'
  | 'settle'
  | 'park'
  | 'take'
  | 'lease'
  | 'unlock'
  | 'clean'
  | 'partitions'
  | 'wake'
  | 'publish'
  | 'deadLetter'
  | 'connect'
  | 'listener';

/** The side of the event stream that applications see: `outbox.events`. */
export abstract class OutboxEvents {
  /** Calls `listener` for every event of this name from now on: it can neither break nor slow the outbox. @returns a function that ends it */
  abstract on<K extends OutboxEventName>(name: K, listener: (event: OutboxEventMap[K]) => unknown): () => void;
  /** The next event of this name. Never rejects; pending for good when none comes: race it with a deadline. */
  abstract once<K extends OutboxEventName>(name: K): Promise<OutboxEventMap[K]>;
  /** Events that no listener got, as more than 10,000 waited. */
  abstract readonly dropped: number;
}

/** The side that stages see: tell, never wait, never fail. */
export interface OutboxHooks {
  emit<K extends OutboxEventName>(name: K, event: OutboxEventMap[K]): void;
  /** Whether anybody listens: lets the hot path skip building an event. */
  has(name: OutboxEventName): boolean;
}
