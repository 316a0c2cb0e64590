import type { NewMessage } from '../outbox-message.js';
import type { SqlExecutor } from './executor.js';
import type { AdminStore, AgingStore, CleanStore } from './admin-store.js';
import type { DiagnoseStore } from './diagnose/diagnose-store.js';
import type { InspectStore } from './inspect-store.js';
import type { LeaseStore } from './lease-store.js';
import type { OperatorStore } from './operator-store.js';
import type { ParkedStore, RowLockStore } from './parked-store.js';
import type { PartitionStore } from './partitions/partition-store.js';
import type { ReadyStore } from './ready-store.js';

/**
 * SEAM: where messages wait. Each stage has a role of its own, and is given that one only. Roles are declared in `*-store.ts`
 * beside this file.
 * Everything here is autocommit on the store's own connections, except what `writer` does.
 * All times are the database's. `describeStoreContract` is the specification; it runs against every implementation.
 */
export interface OutboxStore {
  /** Inserts messages, in the caller's transaction. */
  readonly writer: MessageWriter;
  /** Which instance may publish from which bucket, and which instances live. */
  readonly leases: LeaseStore;
  /** What may be published now: reads it, and writes what became of it. */
  readonly ready: ReadyStore;
  /** What is scheduled, waiting, blocked or dead. */
  readonly parked: ParkedStore;
  /** Rows that stay locked while they are published (`coordination: 'rowLock'`). */
  readonly rowLocks: RowLockStore;
  /** What operators count, and what `health()` asks. */
  readonly admin: AdminStore;
  /** Deletes what is old. */
  readonly cleaner: CleanStore;
  /** The tables, their settings, and the numbers of transports. */
  readonly setup: StoreSetup;
  /** What `OutboxAdmin` asks. Absent: it refuses. */
  readonly inspect?: InspectStore;
  /** What `OutboxDoctor` asks of the server. Absent: it refuses. */
  readonly diagnose?: DiagnoseStore;
  /** What operators do, and what is written down of it. Absent: `OutboxAdmin`, and these methods of `OutboxService`, refuse. */
  readonly operators?: OperatorStore;
  /** What `OutboxPartitionMaintainer` works with. Absent: it refuses. */
  readonly partitions?: PartitionStore;
  /** What `advance()` of `nestjs-outbox/testing` asks. Absent: it refuses. */
  readonly aging?: AgingStore;
  /** Sends a wake-up to the relays of other processes; `undefined` where the database cannot. Never inside a business transaction. */
  notify?(where?: 'ready' | 'parked' | 'leases'): Promise<void>;
  /**
   * Calls `onNotify` for every wake-up, with where it is; a store that does not know says nothing, which means `ready`.
   * Resolves with `undefined` where none would arrive.
   */
  listen?(
    onNotify: (where?: 'ready' | 'parked' | 'leases') => void,
    onLost: (error: unknown) => void,
  ): Promise<{ close(): Promise<void> } | undefined>;
  close(): Promise<void>;
}

/** Some roles of the store: what a part of the library asks for. */
export type Roles<Role extends keyof OutboxStore> = Pick<OutboxStore, Role>;

export interface MessageWriter {
  /**
   * Inserts messages in the caller's transaction: one multi-row statement per table, chunked under the driver's
   * parameter limit. A message with `delay` or `deliverAt` goes straight to the parked table.
   * A `dedupKey` that exists already is left out and returned as `duplicates`: nothing of that message is written and
   * the transaction stays usable.
   */
  insert(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<InsertReport>;
  /**
   * Whether `insert` of these may fail with a part of them written, in a transaction that goes on, so that the caller has to put
   * a savepoint around it. Absent: never, as a statement that fails ends the transaction (PostgreSQL).
   */
  mayLeavePart?(messages: readonly NewMessage[]): boolean;
}
export interface InsertReport {
  /** Index into `messages` → id of the message that holds the dedup key. Empty without duplicates. */
  readonly duplicates: ReadonlyMap<number, string>;
}

/** Where there is work: messages were enqueued, an operator changed what is parked, or a relay came, left or freed a lease. */
export type WakeUp = 'ready' | 'parked' | 'leases';

export interface SchemaSettings {
  readonly buckets: number;
  readonly ordering: 'key' | 'strict' | 'none' | 'global';
  readonly coordination: 'buckets' | 'rowLock' | 'leader';
  /** Of `create`: whether a new archive is made in partitions. `check` takes both kinds. */
  readonly partitionedArchive?: boolean;
}
export interface StoreSetup {
  /** Creates what is missing. Development only: production runs migrations. */
  create(settings: SchemaSettings): Promise<void>;
  /** Compares version, tables, columns, keys and the stored settings; throws `OutboxConfigurationError` saying what to run. */
  check(settings: SchemaSettings): Promise<void>;
  /**
   * Name → number of every transport that was ever registered, also of those that no process has any more. These names are added
   * where they are new, with one lease row per bucket; `defaultName` gets 0 in a new schema.
   */
  transports(names?: readonly string[], defaultName?: string): Promise<ReadonlyMap<string, number>>;
  /**
   * Throws `DATABASE_COPIED` when the messages came from another database, with a restored backup or a copy: its relay may
   * have published them. Asked before a relay starts; `undefined` where copies cannot be told from a failover.
   */
  checkOrigin?(): Promise<void>;
}
