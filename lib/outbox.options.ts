import type { InjectionToken, LoggerService, ModuleMetadata, Type } from '@nestjs/common';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import type { PayloadEncryption } from './message/encryption.js';
import type { Duration, OutboxMessage } from './outbox-message.js';
import type { Blame, OutboxTransport } from './transports/transport.js';
import type { PayloadDeserializer, Serializer } from './message/serializer.js';
import type { PartitionPeriod } from './store/partitions/period.js';
import type { OutboxStore } from './store/outbox-store.js';

/** The names of TypeORM in public signatures: no other room imports it but its data layer. */
export type { EntityManager };

/** The caller's transaction. A repository's `manager` is an EntityManager. */
export type TransactionHandle = EntityManager | QueryRunner;

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
  /** What its options weaken, one sentence each: told when the application starts. */
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
 * Overrules who is to blame for a failure. `undefined` keeps the transport's own verdict; `dead` gives up at once. Not async: one
 * that throws or returns a promise has no say, and is told as an `error`.
 */
export type Classifier = (error: unknown, message: OutboxMessage, blame: Blame) => Blame | 'dead' | undefined;

/**
 * The delay before the next try, kept between `min` and `max`; without jitter. Not async: one that throws, or returns what is
 * no duration, has no say: the delay is the exponential one, and an `error` event tells.
 *
 * @param attempts failures of this message so far, this one included
 */
export type Backoff = (attempts: number, message: OutboxMessage, error: unknown) => Duration;

export interface RetryOptions {
  /** The longest delay before the first retry. Default 1 s. */
  initial?: Duration;
  /** The longest delay before any retry. Default 5 m. */
  max?: Duration;
  /** The shortest delay before any retry, whatever jitter makes of it. Default 1 ms. */
  min?: Duration;
  /** `exponential`: `initial` doubles with each failure. `fixed`: it stays. Or a function. Default `exponential`. */
  backoff?: 'exponential' | 'fixed' | Backoff;
  /** Each delay is a random part of the longest one: `full` from nothing on, `equal` from half of it on, `none` all of it. Default `full`. */
  jitter?: 'full' | 'equal' | 'none';
  /** `message` failures until a message is dead; `null`: no limit. Default 20. */
  maxAttempts?: number | null;
  /** Age since the enqueue at which a `message` failure is final. Default none. */
  maxAge?: Duration;
  /** How many of a message's last failures are kept with it, each with its time; 0: the last error only. Default 0. */
  errorHistory?: number;
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

/** What we use of the class `CronJob` of the package `cron`. */
export interface CronJobClass {
  from(options: { cronTime: string; onTick: () => void; start: boolean; unrefTimeout: boolean }): {
    start(): void;
    stop(): unknown;
  };
}
export interface OutboxOptions {
  /** At least one, by name. Required. */
  transports: Record<string, TransportOption>;
  /** Transport of events that name none. Default: the one named `default`, or the only one. */
  defaultTransport?: string;
  /** `true`: relay in this process from bootstrap on; `false`: only enqueue; `'manual'`: when `OutboxDispatcher` is told. Default true. */
  relay?: boolean | 'manual';
  /** How other processes learn of a commit. Default `notify` on PostgreSQL, `poll` elsewhere and behind a pooler. */
  wakeUp?: 'notify' | 'poll';
  database?: {
    /** `check` compares the schema at start, `create` makes what is missing (development), `none` does neither. Default `check`. */
    setup?: 'check' | 'create' | 'none';
    /** PostgreSQL schema, MySQL database. Default: the connection's. */
    schema?: string;
    /** Default `outbox_`. */
    prefix?: string;
    /** The relay's own connections, 2–8. Default 4. */
    poolSize?: number;
    /** PostgreSQL: named prepared statements; not used where a pooler shows. Default true. */
    preparedStatements?: boolean;
    /** PostgreSQL behind a pooler: where the relay listens, past it: `postgres://user:password@host:5432/database`. */
    listenUrl?: string;
  };
  /** Finds a transaction that another library keeps (nestjs-cls, typeorm-transactional). */
  currentManager?: () => TransactionHandle | undefined;
  /** Opens a store of your own, which passes `describeStoreContract` of `nestjs-outbox/testing`. Default: by the DataSource's type. */
  store?: OpenStore;
  /**
   * `key`: messages of one key in the order of their transactions, where these do not overlap. `strict`: in the order of the
   * commits, also where they do; see docs/guarantees.md for what it costs. `none`, `global`. Stored with the tables, compared at start. Default `key`.
   */
  ordering?: 'key' | 'strict' | 'none' | 'global';
  coordination?: 'buckets' | 'rowLock' | 'leader';
  /** Buckets per transport, fixed when the schema is made: the most instances that publish at once. Default 32. */
  buckets?: number;
  retry?: RetryOptions;
  /** What a dead message does to its key. Default `block` (messages without a key never block). */
  onDead?: 'block' | 'skip';
  /**
   * Called at least once per death, after commit. A rejection is logged, and the letter told again after half a `lease`. So is a
   * call that takes longer than `publishTimeout`, unless it still ends well: while it runs its letter is not told again, for
   * 30 × `publishTimeout` at most.
   */
  deadLetter?: (letter: DeadLetterEvent) => void | Promise<void>;
  onPublished?: 'delete' | 'archive';
  retention?: {
    /** Age at which archived messages go. Default 7 d. */
    published?: Duration;
    /** Age at which dead letters go; `null`: never. Default `null`. */
    dead?: Duration | null;
    /** Age at which dedup keys go. Default 7 d. */
    dedup?: Duration;
    /** Age at which the audit of operators' actions goes. Default 90 d. */
    audit?: Duration;
    /**
     * Default 1 h. `CronJob` is that of the package `cron`, for a bundle without `node_modules`; it is looked for behind
     * `@nestjs/schedule` otherwise.
     */
    every?: Duration | { cron: string; CronJob?: CronJobClass };
    /** Rest between two batches of a pass, so that writers and replicas keep up. Default 0. */
    pause?: Duration;
  };
  /** Of an archive that was made in partitions: see docs/retention.md. */
  partitions?: {
    /** Makes and drops partitions in this process, where it relays. Default: it does not. */
    period?: PartitionPeriod;
    /** How far ahead there are partitions: 2 d of hours, 30 d of days, 90 d of months by default; the next one always. */
    lookahead?: Duration;
    /** Age at which a partition is dropped, counted from its end; `null`: never. Default: `retention.published`. */
    retention?: Duration | null;
    /** Default 1 h. */
    every?: Duration;
    /** How long a change waits for its table, and others behind it. Whole seconds on MariaDB and MySQL, rounded up. Default 1 s. */
    lockTimeout?: Duration;
  };
  /** Default 30 s. */
  lease?: Duration;
  /** Messages per batch at most. Default 500. */
  batchSize?: number;
  /** Payload bytes per batch at most. Default 4 MiB. */
  batchBytes?: number;
  /** Batches being published at once, per transport. Default 4. */
  batchesInFlight?: number;
  /** Default 1 s. */
  pollInterval?: Duration;
  /** Default 10 s. */
  publishTimeout?: Duration;
  /** Default 10 s. */
  shutdownTimeout?: Duration;
  /** `auto`: a batch waits for the disk when its commit may not have; `always`: every batch does. Default `auto`. */
  durability?: 'auto' | 'always';
  /** Default 1 MiB. */
  maxPayloadBytes?: number;
  serializer?: Serializer;
  /**
   * For handlers, beside the serializer: what other programs, or events with a `contentType` of their own, encoded otherwise. The
   * serializer is asked first. Of a content type that nobody reads handlers get the bytes. Default: none.
   */
  deserializers?: readonly PayloadDeserializer[];
  /** Encrypts payloads before they are stored. Default: none. */
  encryption?: PayloadEncryption;
  /** Must return UUIDv7. */
  idGenerator?: () => string;
  logger?: LoggerService;
  logLevel?: 'debug' | 'log' | 'warn' | 'error' | 'silent';
}

/** Known when the module is declared, also with `forRootAsync`. */
export interface OutboxExtras {
  /** Several outboxes in one application: `@InjectOutbox(name)`. Default `default`. */
  name?: string;
  /** Default true. */
  isGlobal?: boolean;
  /** TypeORM DataSource: its name, DI token, or the object. Default: the unnamed one. */
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
  readonly min: number;
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
    readonly poolSize: number;
    readonly preparedStatements: boolean;
    readonly listenUrl?: string | undefined;
  };
  readonly currentManager: (() => TransactionHandle | undefined) | undefined;
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
    readonly pause: number;
  };
  readonly partitions: {
    readonly period: PartitionPeriod | undefined;
    readonly lookahead: number | undefined;
    readonly retention: number | null;
    readonly every: number;
    readonly lockTimeout: number;
  };
  readonly lease: number;
  readonly batchSize: number;
  readonly batchBytes: number;
  readonly batchesInFlight: number;
  readonly pollInterval: number;
  readonly publishTimeout: number;
  readonly shutdownTimeout: number;
  readonly durability: 'auto' | 'always';
  readonly maxPayloadBytes: number;
  readonly serializer: Serializer;
  readonly deserializers: readonly PayloadDeserializer[];
  readonly encryption: PayloadEncryption | undefined;
  readonly idGenerator: () => string;
  readonly logger: LoggerService | undefined;
  readonly logLevel: 'debug' | 'log' | 'warn' | 'error' | 'silent';
}
