import type { InjectionToken, LoggerService, ModuleMetadata, Type } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import type { PayloadEncryption } from './message/encryption.js';
import type { OutboxDataLayer } from './outbox-data-layer.js';
import type { Duration, OutboxMessage } from './outbox-message.js';
import type { Blame, OutboxTransport } from './transports/transport.js';
import type { PayloadDeserializer, Serializer } from './message/serializer.js';
import type { PartitionPeriod } from './store/partitions/period.js';
import type { OutboxStore } from './store/outbox-store.js';

/**
 * How to get a transport. Inert until a relay runs: a process that only enqueues loads no broker client.
 * `limits` are known without loading anything, because they are checked at enqueue.
 */
export interface TransportDefinition {
  /** For logs and health: `kafka`, `rabbitmq`, `client-proxy`, `in-process`, or a custom name. */
  readonly kind: string;
  /** Where its broker is, for the log: hosts and ports, no credentials. */
  readonly broker?: string;
  /** See {@link OutboxTransport.receipt}; `none` is refused unless the transport was allowed to be unconfirmed. */
  readonly receipt: 'broker' | 'handler' | 'none';
  readonly limits?: OutboxTransport['limits'];
  /** Promises that its options weaken, one sentence each. They are logged when the application starts. */
  readonly warnings?: readonly string[];
  /** Tokens whose instances are handed to `create`, resolved from the application when the relay starts. */
  readonly inject?: readonly InjectionToken[];
  create(...dependencies: unknown[]): OutboxTransport | Promise<OutboxTransport>;
}
/** A definition (`kafka({…})`), a transport object, its class or DI token, or a factory. */
export type TransportOption =
  | TransportDefinition
  | OutboxTransport
  | Type<OutboxTransport>
  | InjectionToken<OutboxTransport>
  | {
      inject?: readonly InjectionToken[];
      useFactory: (...dependencies: never[]) => OutboxTransport | Promise<OutboxTransport>;
      receipt?: 'broker' | 'handler' | 'none';
      limits?: OutboxTransport['limits'];
    };

/**
 * Overrules who is to blame for a failure. `undefined` keeps the transport's own verdict; `dead` gives up at once.
 * It must not be async: when it throws or returns a promise, the transport's verdict holds, and an `error` event says so.
 */
export type Classifier = (error: unknown, message: OutboxMessage, blame: Blame) => Blame | 'dead' | undefined;

/**
 * Returns the delay before the next try, which is at most `max` and has no jitter. It must not be async: when it
 * throws or returns no duration, the delay is the exponential one, and an `error` event says so.
 *
 * @param attempts failures of this message so far, this one included
 */
export type Backoff = (attempts: number, message: OutboxMessage, error: unknown) => Duration;

export interface RetryOptions {
  /** Sets the longest delay before the first retry; jitter makes it shorter. Default: `1s` (1ms–1h). */
  initial?: Duration;
  /** Sets the longest delay before any retry. Default: `5m` (1ms–7d). */
  max?: Duration;
  /**
   * Sets how the longest delay grows: `exponential` doubles it with each failure, `fixed` keeps `retry.initial`, and a function
   * returns each delay. Default: `exponential`.
   */
  backoff?: 'exponential' | 'fixed' | Backoff;
  /** Takes a random part of the longest delay: `full` from zero, `equal` from half of it, `none` all of it. Default: `full`. */
  jitter?: 'full' | 'equal' | 'none';
  /** Limits the failures that are charged to a message before it is dead. `null` sets no limit. Default: `20` (1–1,000,000, or null). */
  maxAttempts?: number | null;
  /** Makes a failure final when the message was enqueued longer ago than this. Default: none (1s–3650d). */
  maxAge?: Duration;
  /** Keeps this many of the last failures with a message, each with its time. `0` keeps the last error only. Default: `0` (0–100). */
  errorHistory?: number;
  /** Overrules whose fault a failure is: `message`, `transport` or `collateral`; or `dead`, which gives up at once. Default: none. */
  classify?: Classifier;
}

/** @param dataSource initialized */
export type OpenStore = (
  dataSource: DataSource,
  options: {
    readonly name: string;
    readonly buckets: number;
    readonly ordering: 'key' | 'strict' | 'none' | 'global';
    readonly coordination: 'buckets' | 'rowLock' | 'leader';
    readonly onPublished: 'delete' | 'archive';
  },
) => OutboxStore;

/** A message that is not tried again until somebody requeues it. */
export interface DeadLetterEvent {
  readonly message: OutboxMessage;
  readonly transport: string;
  readonly attempts: number;
  readonly error: string | null;
  readonly diedAt: Date;
}

/** The part of the class `CronJob` of the package `cron` that the cleaner uses. */
export interface CronJobClass {
  from(options: { cronTime: string; onTick: () => void; start: boolean; unrefTimeout: boolean }): {
    start(): void;
    stop(): unknown;
  };
}
export interface OutboxOptions {
  /**
   * Says how the outbox reaches the database of an application without TypeORM: `pgLayer(pool)`, `mysql2Layer(pool)`,
   * `drizzleLayer(db)`. Default: the TypeORM DataSource.
   */
  dataLayer?: OutboxDataLayer;
  /** Names the destinations, such as `{ default: rabbitmq({ … }) }`: events choose transports by these names. Required. */
  transports: Record<string, TransportOption>;
  /** Names the transport of events that name none. Default: 'default', or the only one. */
  defaultTransport?: string;
  /**
   * Decides whether this process publishes: `true` from the start of the application on, `false` never, `'manual'` after
   * `OutboxDispatcher.start()`. Default: `true`.
   */
  relay?: boolean | 'manual';
  /**
   * Chooses how a relay learns of a commit in another process: `notify` listens on PostgreSQL, `poll` looks every `pollInterval`.
   * Default: notify on PostgreSQL, poll elsewhere and behind a pooler.
   */
  wakeUp?: 'notify' | 'poll';
  /** Says where the tables are, and how the relay connects to them. */
  database?: {
    /**
     * Tells the start what to do with the tables: `check` compares them, `create` makes them (development), `none` does neither.
     * Default: `check`.
     */
    setup?: 'check' | 'create' | 'none';
    /**
     * Puts the tables and the view into this schema of PostgreSQL, or into this database of MariaDB or MySQL. Default: the
     * connection's.
     */
    schema?: string;
    /** Begins the name of each table, of the view and of their indexes. Default: `outbox_`. */
    prefix?: string;
    /**
     * Says whether a pooler such as PgBouncer stands in front of PostgreSQL. Behind one, no statement is prepared under a name and
     * the relay polls; an address of PostgreSQL itself, in place of `true`, lets it listen past the pooler. Default: found out.
     */
    pooler?: boolean | string;
  };
  /**
   * Finds the open transaction where another library keeps it (nestjs-cls, typeorm-transactional), so that `enqueue` needs no
   * `tx`. Default: none.
   */
  currentTransaction?: () => object | null | undefined;
  /**
   * Opens a store of your own in place of the one that fits the database. It must pass `describeStoreContract` of
   * `nestjs-outbox/testing`. Default: none.
   */
  store?: OpenStore;
  /**
   * Sets the order of messages: `key` orders them per key, `strict` also by commit where transactions overlap, `global` publishes
   * one at a time, `none` keeps no order. Default: `key`.
   *
   * It is stored with the tables and compared at the start. docs/guarantees.md says what `strict` costs.
   */
  ordering?: 'key' | 'strict' | 'none' | 'global';
  /**
   * Chooses how relays share the work: `buckets` divides it by lease, `rowLock` locks rows and keeps no order, `leader` lets one
   * relay publish everything. Default: `buckets`.
   */
  coordination?: 'buckets' | 'rowLock' | 'leader';
  /**
   * Divides the keys of each transport into this many parts; each is published by one relay at a time. It is fixed when the tables
   * are made. Default: `32` (1–1,024).
   */
  buckets?: number;
  /** Says when a failed message is tried again, and when it is given up. `@OutboxEvent({ retry })` overrules it for one event. */
  retry?: RetryOptions;
  /**
   * Decides what happens to the later messages of a key when one is dead: `block` holds them back, `skip` publishes them. Default:
   * `block`.
   */
  onDead?: 'block' | 'skip';
  /**
   * Is called for each message that died, after the commit, and at least once. Default: none.
   *
   * When it rejects, the error is logged and the hook is called again for this letter after half a `lease`. So it is when a call
   * takes longer than `publishTimeout`, unless that call still ends well: for 30 × `publishTimeout` at most there is no second call
   * beside it.
   */
  deadLetter?: (letter: DeadLetterEvent) => void | Promise<void>;
  /** Decides what happens to a message once it is published: `delete` removes it, `archive` moves it to the archive. Default: `delete`. */
  onPublished?: 'delete' | 'archive';
  /** Says how long the outbox keeps rows that nobody publishes any more. The cleaner of a relay deletes them. */
  retention?: {
    /** Deletes messages from the archive when they were published longer ago than this. Default: `7d` (1s–3650d). */
    published?: Duration;
    /**
     * Deletes dead letters that are older than this. `null` keeps them until somebody requeues or discards them. Default: `null`
     * (1s–3650d, or null).
     */
    dead?: Duration | null;
    /** Forgets dedup keys that are older than this; the same key can then enqueue again. Default: `7d` (1m–3650d). */
    dedup?: Duration;
    /** Deletes entries of the operators' audit that are older than this. Default: `90d` (1h–3650d). */
    audit?: Duration;
    /**
     * Sets how often the cleaner runs, or when, by a cron expression. Default: `1h` (1s–24d).
     *
     * A bundle without `node_modules` passes the class `CronJob` of the package `cron`. Otherwise it comes with `@nestjs/schedule`.
     */
    every?: Duration | { cron: string; CronJob?: CronJobClass };
  };
  /** Makes and drops the partitions of an archive that was made in partitions: see docs/retention.md. */
  partitions?: {
    /**
     * Makes and drops partitions of the archive in this process, each as long as this. The archive must have been made in
     * partitions. Default: none.
     */
    period?: PartitionPeriod;
  };
  /**
   * Sets how long a relay owns its buckets without renewing them. When a relay crashes, another one takes over after this time.
   * Default: `30s` (10s–1h).
   */
  lease?: Duration;
  /** Limits the messages of one batch. Default: `500` (1–10,000). */
  batchSize?: number;
  /**
   * Limits the payload bytes of one batch. The message that passes the limit is still part of the batch. Default: `4,194,304`
   * (1,024–1,073,741,824).
   */
  batchBytes?: number;
  /** Limits the batches of one transport that are published at the same time. Default: `4` (1–64). */
  batchesInFlight?: number;
  /** Sets how often an idle relay looks for messages when nothing wakes it. Default: `1s` (10ms–1m). */
  pollInterval?: Duration;
  /**
   * Limits how long the relay waits for the broker, or a handler, to take a message. It must be at most `lease` − 8 s. Default:
   * `10s` (100ms–30m).
   */
  publishTimeout?: Duration;
  /** Limits how long a stop waits for publishes that are under way. Default: `10s` (100ms–10m). */
  shutdownTimeout?: Duration;
  /** Limits the encoded payload of a message. `enqueue` refuses a larger one. Default: `1,048,576` (1–134,217,728). */
  maxPayloadBytes?: number;
  /**
   * Turns payloads into bytes at `enqueue`, and back for handlers in the process. In an array, those behind the first one only
   * read: payloads of other content types, of which handlers get the bytes otherwise. Default: JSON.
   */
  serializer?: Serializer | readonly [Serializer, ...PayloadDeserializer[]];
  /** Encrypts payloads before they are stored, and decrypts them before they are published. Default: none. */
  encryption?: PayloadEncryption;
  /** Makes the ids of messages. It must return UUIDv7. Default: UUIDv7. */
  idGenerator?: () => string;
  /** Writes the log of the outbox. Default: Nest Logger. */
  logger?: LoggerService;
  /** Sets the least important level that is logged. Default: `log`. */
  logLevel?: 'debug' | 'log' | 'warn' | 'error' | 'silent';
}

/** Known when the module is declared, also with `forRootAsync`. */
export interface OutboxExtras {
  /** Names this outbox, for an application with several: `@InjectOutbox(name)`. Default: `default`. */
  name?: string;
  /** Makes the module global, so that its providers can be injected in every module. Default: `true`. */
  isGlobal?: boolean;
  /** Chooses the TypeORM DataSource: by its name, by its DI token, or the object itself. Default: the unnamed one. */
  dataSource?: string | InjectionToken | DataSource;
}
/** As Nest names the options of a module: what `forRoot` takes. */
export type OutboxModuleOptions = OutboxOptions & OutboxExtras;
export interface OutboxOptionsFactory {
  createOutboxOptions(): OutboxOptions | Promise<OutboxOptions>;
}
export interface OutboxAsyncOptions extends OutboxExtras, Pick<ModuleMetadata, 'imports'> {
  inject?: readonly InjectionToken[];
  useFactory?: (...dependencies: never[]) => OutboxOptions | Promise<OutboxOptions>;
  useClass?: Type<OutboxOptionsFactory>;
  useExisting?: InjectionToken<OutboxOptionsFactory>;
}
/** As Nest names them: what `forRootAsync` takes. */
export type OutboxModuleAsyncOptions = OutboxAsyncOptions;

/** Limits and policy that a message's own event may override. Milliseconds. */
export interface RetryPolicy {
  readonly initial: number;
  readonly max: number;
  readonly backoff: 'exponential' | 'fixed' | Backoff;
  readonly jitter: 'full' | 'equal' | 'none';
  readonly maxAttempts: number | null;
  readonly maxAge: number | null;
  readonly errorHistory: number;
  readonly classify: Classifier | undefined;
  readonly onDead: 'block' | 'skip';
}

/** Checked, complete, frozen; durations in milliseconds. Only this travels inward. */
export interface ResolvedOptions {
  readonly name: string;
  readonly transports: ReadonlyMap<string, TransportDefinition>;
  readonly defaultTransport: string;
  readonly relay: boolean | 'manual';
  readonly wakeUp: 'notify' | 'poll' | undefined;
  readonly database: {
    readonly setup: 'check' | 'create' | 'none';
    readonly schema: string | undefined;
    readonly prefix: string;
    readonly pooler: boolean | string | undefined;
  };
  readonly currentTransaction: OutboxOptions['currentTransaction'];
  readonly store: OpenStore | undefined;
  readonly ordering: 'key' | 'strict' | 'none' | 'global';
  readonly coordination: 'buckets' | 'rowLock' | 'leader';
  readonly buckets: number;
  readonly retry: RetryPolicy;
  readonly deadLetter: OutboxOptions['deadLetter'];
  readonly onPublished: 'delete' | 'archive';
  readonly retention: {
    readonly published: number;
    readonly dead: number | null;
    readonly dedup: number;
    readonly audit: number;
    readonly every: number | { readonly cron: string; readonly CronJob?: CronJobClass };
  };
  readonly partitions: {
    readonly period: PartitionPeriod | undefined;
    readonly retention: number;
  };
  readonly lease: number;
  readonly batchSize: number;
  readonly batchBytes: number;
  readonly batchesInFlight: number;
  readonly pollInterval: number;
  readonly publishTimeout: number;
  readonly shutdownTimeout: number;
  readonly maxPayloadBytes: number;
  readonly serializer: Serializer;
  readonly deserializers: readonly PayloadDeserializer[];
  readonly encryption: PayloadEncryption | undefined;
  readonly idGenerator: () => string;
  readonly logger: LoggerService | undefined;
  readonly logLevel: 'debug' | 'log' | 'warn' | 'error' | 'silent';
}
