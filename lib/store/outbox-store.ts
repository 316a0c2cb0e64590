import type { NewMessage, OutboxMessage, ParkedState, Place } from '../message.js';
import type { SqlExecutor } from './executors/executor.js';

/**
 * SEAM: where messages wait. One role per stage, so that each stage sees only what it may do.
 * Everything here is autocommit on the store's own connections, except `insert`, which runs in the caller's transaction.
 * All times are the database's. `describeStoreContract` is the specification; it runs against every implementation.
 */
export interface OutboxStore
  extends MessageWriter, LeaseStore, ReadyStore, ParkedStore, RowLockStore, AdminStore, CleanStore, StoreSetup {
  /** Sends a wake-up to the relays of other processes; `undefined` where the database cannot. Never inside a business transaction. */
  notify?(): Promise<void>;
  listen?(onNotify: () => void, onLost: (error: unknown) => void): Promise<{ close(): Promise<void> }>;
  close(): Promise<void>;
}

// ── enqueue ───────────────────────────────────────────────────────────────────────────────────────────────────────

export interface MessageWriter {
  /**
   * Inserts messages in the caller's transaction: one multi-row statement per table, chunked under the driver's
   * parameter limit. A message with `delay` or `deliverAt` goes straight to the parked table.
   * A `dedupKey` that exists already is left out and returned as `duplicates`: nothing of that message is written and
   * the transaction stays usable.
   */
  insert(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<InsertReport>;
}
export interface InsertReport {
  /** Index into `messages` → id of the message that holds the dedup key. Empty without duplicates. */
  readonly duplicates: ReadonlyMap<number, string>;
}

// ── claim: leases ─────────────────────────────────────────────────────────────────────────────────────────────────

export interface Bucket {
  readonly transport: number;
  readonly bucket: number;
}
export interface Lease extends Bucket {
  /** Grows at every acquisition, never otherwise. Decimal string. */
  readonly epoch: string;
}

export interface LeaseStore {
  /** Takes up to `limit` buckets of a transport whose lease is free or expired; of `only` when given. */
  acquire(request: {
    owner: string;
    leaseMs: number;
    transport: number;
    limit: number;
    only?: readonly number[];
  }): Promise<Lease[]>;
  /** Extends every lease of the owner that has not expired and returns them: what is not returned is lost. */
  renew(owner: string, leaseMs: number): Promise<Lease[]>;
  /** Frees leases of this owner and epoch at once. */
  giveBack(owner: string, leases: readonly Lease[]): Promise<void>;
  /** Registers or refreshes this instance and returns all that are alive, itself included. */
  beat(instance: Instance, ttlMs: number): Promise<Instance[]>;
  /** Removes an instance at shutdown. */
  leave(owner: string): Promise<void>;
  /** Unlocker: clears expired leases and dead instances; never shortens a lease. Returns whose leases it cleared. */
  expire(): Promise<(Lease & { owner: string })[]>;
}
export interface Instance {
  /** Random per start (UUID). */
  readonly owner: string;
  /** Transports that this instance can publish to now (its circuit is closed). */
  readonly transports: readonly number[];
  /** Host, pid, version: for people. */
  readonly info: string;
}

// ── claim, settle: the ready table ────────────────────────────────────────────────────────────────────────────────

/**
 * What a read proves about transactions that were still open (PostgreSQL). Decimal strings of 64-bit transaction ids.
 * `undefined` where the database tells nothing (MySQL): there the floor is found by `probe`.
 */
export interface Snapshot {
  readonly xmin: string;
  /** First id that had not been assigned, or not completed, when the snapshot was taken. */
  readonly xmax: string;
  /** Ids below `xmax` that were still in progress. */
  readonly open: readonly string[];
}
export interface ReadPosition {
  readonly bucket: number;
  /** Exclusive. */
  readonly after: string;
}
export interface ReadRange extends ReadPosition {
  /** Inclusive. */
  readonly upTo: string;
}
export interface FetchResult {
  /** Per bucket ascending by `seq`; buckets in any order. */
  readonly messages: OutboxMessage[];
  readonly snapshot: Snapshot | undefined;
  /** Whether every message read is known to be on the primary's disk. If not, call `flush` before publishing. */
  readonly durable: boolean;
  /** Generation of the connection that read; when it changes, the reader starts over. */
  readonly session: number;
}
export interface SettledMessage extends Place {
  readonly id: string;
  readonly attempts: number;
  /** Set when it was published from the parked table. */
  readonly parkedId: string | null;
}
export interface ParkEntry extends Place {
  readonly id: string;
  readonly state: 'waiting' | 'blocked' | 'dead';
  /** Whether the key's later messages must wait for this row. False for messages without a key. */
  readonly blocks: boolean;
  readonly attempts: number;
  /** Milliseconds from the database's now until it is due; only for `waiting`. */
  readonly delay: number | null;
  readonly error: string | null;
  /** `PublishFailure.progress`, stored as it is. Absent: none on `park`, unchanged on `repark`. */
  readonly progress?: string | null;
}
/** A write of the relay. `fence` is the id of its own transaction (PostgreSQL): newer than every row read before it was sent. */
export interface WriteReport {
  readonly fence: string | undefined;
  /** Rows touched; fewer than asked for means that somebody else was faster, which is expected. */
  readonly affected: number;
}

export interface ReadyStore {
  /** Reads rows after each position in `seq` order, at most `perBucket` each and `limit` in all. */
  fetch(request: {
    transport: number;
    positions: readonly ReadPosition[];
    perBucket: number;
    limit: number;
  }): Promise<FetchResult>;
  /** All places in the ranges, complete, keys only. Paged inside. Ascending per bucket. */
  sweep(transport: number, ranges: readonly ReadRange[]): Promise<{ places: Place[]; snapshot: Snapshot | undefined }>;
  /** The rows at these places that are still there, ascending per bucket. */
  readPlaces(transport: number, places: readonly Place[]): Promise<FetchResult>;
  /**
   * Where snapshots tell nothing: for each range, whether no uncommitted insert is in it (a dirty read against a committed one).
   * `undefined` where `fetch` returns snapshots.
   */
  probe?(transport: number, ranges: readonly ReadRange[]): Promise<boolean[]>;
  /** A durable write that begins now and is on disk when the promise resolves; with it everything read before. */
  flush(): Promise<void>;
  /**
   * Success: removes (or archives) these messages whoever holds the lease, by place and id; one that is not in the
   * ready table is looked for in the parked table, whatever its state there. At most one archive row each.
   */
  settle(
    transport: number,
    messages: readonly SettledMessage[],
    onPublished: 'delete' | 'archive',
  ): Promise<WriteReport>;
  /** Moves rows from ready to parked, fenced by a lock on the lease rows. Rows of a lost lease stay where they are. */
  park(owner: string, leases: readonly Lease[], entries: readonly ParkEntry[]): Promise<WriteReport>;
}

// ── claim, settle: the parked table ───────────────────────────────────────────────────────────────────────────────

export interface KeyInBucket {
  readonly bucket: number;
  readonly key: string;
}
export interface DueRow {
  readonly parkedId: string;
  readonly bucket: number;
  readonly key: string | null;
  readonly state: ParkedState;
}
export interface TakeRequest {
  readonly owner: string;
  readonly transport: number;
  readonly leases: readonly Lease[];
  /** Rows from `due`: a scheduled one with a key now joins its key's order; one behind an earlier blocking row of its key becomes `blocked`. */
  readonly due: readonly DueRow[];
  /** Keys whose first blocking row was settled: go on with the rows behind it. */
  readonly keys: readonly KeyInBucket[];
  /** Blocked rows to take per key. A `waiting` first row is always taken alone. */
  readonly perKey: number;
}
export interface TakeResult {
  /** Marked `sending` for this epoch; per key in the order of `seq`. */
  readonly messages: OutboxMessage[];
  /** Of `keys` and the keys of `due`: those without a blocking row. */
  readonly clear: KeyInBucket[];
  readonly durable: boolean;
}
export interface ReparkEntry {
  readonly parkedId: string;
  readonly bucket: number;
  readonly state: 'waiting' | 'blocked' | 'dead';
  readonly blocks: boolean;
  readonly attempts: number;
  readonly delay: number | null;
  readonly error: string | null;
  /** `PublishFailure.progress`, stored as it is. Absent: none on `park`, unchanged on `repark`. */
  readonly progress?: string | null;
}
export interface DeadLetter {
  readonly message: OutboxMessage;
  readonly transport: number;
  readonly error: string | null;
  readonly diedAt: Date;
}

export interface ParkedStore {
  /**
   * Rows whose time has come and that nobody is sending, oldest due first; and in how many milliseconds the next one
   * will be due (`null`: none).
   */
  due(transport: number, buckets: readonly number[], limit: number): Promise<{ rows: DueRow[]; nextIn: number | null }>;
  /** Fenced: marks rows as `sending` in this epoch and returns them. Rows that an older epoch was sending are taken again. */
  take(request: TakeRequest): Promise<TakeResult>;
  /** Fenced: what happened to rows that were `sending`. */
  repark(owner: string, leases: readonly Lease[], entries: readonly ReparkEntry[]): Promise<WriteReport>;
  /** Keys that have a blocking row, and whether their first one can go on without waiting (`ready`: blocked or left `sending` by an older epoch). */
  blockingKeys(
    transport: number,
    buckets: readonly number[],
    limit: number,
  ): Promise<(KeyInBucket & { ready: boolean })[]>;
  /** Whether any row blocks, with a key or without: in a global order it holds everything. */
  hasBlocking(transport: number, buckets: readonly number[]): Promise<boolean>;
  /** Of these keys, those that have a blocking row. */
  blockedAmong(transport: number, keys: readonly KeyInBucket[]): Promise<KeyInBucket[]>;
  /** Dead rows whose hook was not called yet. */
  unannouncedDead(transports: readonly number[], limit: number): Promise<(DeadLetter & { parkedId: string })[]>;
  markAnnounced(parkedIds: readonly string[]): Promise<void>;
}

// ── row locks instead of leases ───────────────────────────────────────────────────────────────────────────────────

export interface LockedOutcome {
  readonly published: readonly SettledMessage[];
  /** From ready. */
  readonly parked: readonly ParkEntry[];
  /** From parked. */
  readonly reparked: readonly ReparkEntry[];
}
/** For `coordination: 'rowLock'`, which has no leases, no fences and no order. */
export interface RowLockStore {
  /**
   * Locks up to `limit` ready and due rows that nobody else has locked (`FOR UPDATE SKIP LOCKED`), keeps the transaction
   * open while `work` publishes them, writes what `work` says in the same transaction and commits. Rows that `work` does
   * not name stay as they are. When `work` throws, or the connection breaks, nothing is written.
   * @returns how many rows were locked
   */
  withLockedRows(
    request: { transport: number; limit: number; onPublished: 'delete' | 'archive' },
    work: (messages: OutboxMessage[], durable: boolean) => Promise<LockedOutcome>,
  ): Promise<number>;
}

// ── operators ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** All given conditions must hold. An empty filter is refused by the service. */
export interface MessageFilter {
  readonly ids?: readonly string[];
  readonly transport?: number;
  readonly key?: string;
  readonly topic?: string;
  readonly type?: string;
  /** Highest number of rows to touch. */
  readonly limit: number;
}
export interface OperatorReport {
  /** Ids that were changed. */
  readonly done: string[];
  /** Of `filter.ids`: those that can no longer be stopped (ready, or being sent right now). */
  readonly tooLate: string[];
  /** Of `filter.ids`: those that are nowhere (settled, or never there). */
  readonly notFound: string[];
}
export interface AdminStore {
  /** Dead, waiting or blocked → due now, attempts 0, in its old place of the key's order. */
  requeue(filter: MessageFilter): Promise<OperatorReport>;
  /** Deletes dead, waiting or blocked rows; the key's next row becomes due. */
  discard(filter: MessageFilter): Promise<OperatorReport>;
  /** Deletes scheduled, waiting, blocked or dead rows that nobody is sending. */
  cancel(filter: MessageFilter): Promise<OperatorReport>;
  /** Lets a blocked key go on: its dead rows stop blocking, its first waiting or blocked row becomes due. */
  release(filter: { key: string; transport?: number }): Promise<{ released: number }>;
  stats(): Promise<TransportStats[]>;
}
export interface TransportStats {
  readonly transport: number;
  /** Counted up to `STATS_COUNT_LIMIT` rows, then `ready` is that limit and `readyIsExact` false. */
  readonly ready: number;
  readonly readyIsExact: boolean;
  readonly scheduled: number;
  readonly waiting: number;
  readonly blocked: number;
  readonly dead: number;
  readonly blockedKeys: number;
  /** Age of the oldest ready message, milliseconds; `null` without one. */
  readonly oldestReadyAge: number | null;
  readonly leasedBuckets: number;
  readonly instances: number;
}
export const STATS_COUNT_LIMIT = 100_000;

// ── clean ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface CleanStore {
  /** Each deletes at most `limit` rows older than `age` milliseconds and returns how many. Never a row that is not final. */
  cleanArchive(age: number, limit: number): Promise<number>;
  cleanDead(age: number, limit: number): Promise<number>;
  /** Never a key whose message is not settled yet. */
  cleanDedup(age: number, limit: number): Promise<number>;
}

// ── setup ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface SchemaSettings {
  readonly buckets: number;
  readonly ordering: 'key' | 'none' | 'global';
  readonly coordination: 'buckets' | 'rowLock' | 'leader';
}
export interface StoreSetup {
  /** Creates what is missing. Development only: production runs migrations. */
  create(settings: SchemaSettings): Promise<void>;
  /** Compares version, tables, columns, keys and the stored settings; throws `OutboxConfigurationError` saying what to run. */
  check(settings: SchemaSettings): Promise<void>;
  /** Name → number; unknown names are added, with one lease row per bucket. `defaultName` gets 0 in a new schema. */
  registerTransports(names: readonly string[], defaultName: string): Promise<ReadonlyMap<string, number>>;
  /** Server settings that weaken a promise, one sentence each, for the log at start. */
  warnings(): Promise<string[]>;
}
