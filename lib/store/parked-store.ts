import type { OutboxMessage, ParkedState } from '../outbox-message.js';
import type { Lease } from './lease-store.js';
import type { ParkEntry, SettledMessage, WriteReport } from './ready-store.js';

/** SEAM: the parked table, for claim and settle; row locks over both tables. `OutboxStore` says what holds for all roles. */

export interface KeyInBucket {
  readonly bucket: number;
  readonly key: string;
}
/** All rows of these buckets, of a global order. */
export const inOneOrder = (buckets: readonly number[]): KeyInBucket[] => buckets.map((bucket) => ({ bucket, key: '' }));

export interface DueRow {
  readonly parkedId: string;
  readonly bucket: number;
  /** Whose order it stands in, or will: its key, `''` for all rows of a global order, `null` for none. */
  readonly key: string | null;
  readonly state: ParkedState;
}
export type PassedOver = Omit<DueRow, 'state'>;
export interface TakeRequest {
  readonly owner: string;
  readonly transport: number;
  readonly leases: readonly Lease[];
  /**
   * Rows from `due`, in its order: a scheduled one with a key now joins its key's order, behind all that is there; one
   * behind an earlier blocking row of its key becomes `blocked`.
   */
  readonly due: readonly DueRow[];
  /** Keys whose first blocking row was settled: go on with the rows behind it. `''` in a global order. */
  readonly keys: readonly KeyInBucket[];
  /** Blocked rows to take per key. A `waiting` first row is always taken alone. */
  readonly perKey: number;
}
export interface TakeResult {
  /** Marked `sending` for this epoch; per key in the order of `seq`. */
  readonly messages: OutboxMessage[];
  /** Of `keys` and the keys of `due`: those without a blocking row. */
  readonly clear: KeyInBucket[];
  /**
   * Of `due`, and of the rows that stand first of their keys, those that are as they were because somebody else holds them
   * locked, or changed them just then: to be asked for again in a while. Absent: none.
   */
  readonly passedOver?: readonly PassedOver[];
  readonly durable: boolean;
}
export interface ReparkEntry extends Pick<ParkEntry, 'state' | 'blocks' | 'attempts' | 'delay' | 'error' | 'progress'> {
  readonly parkedId: string;
  readonly bucket: number;
  /** With how many it was sent: an operator who requeued it meanwhile began a new life, of which this says nothing. */
  readonly attemptsBefore: number;
}
/** Which death of which row: one that is requeued and dies again is another. */
export interface Death {
  readonly transport: number;
  readonly parkedId: string;
  /** `died_at` to the microsecond, in the database's own words. */
  readonly died: string;
}
export interface DeadLetter extends Death {
  readonly message: OutboxMessage;
  readonly error: string | null;
  readonly diedAt: Date;
}

export interface HastenRequest {
  /** Only messages of these; `null`: of all. */
  readonly topics: readonly string[] | null;
  /** Where to go on: {@link Hastened.next} of the part before. `null`: at the beginning. */
  readonly from: string | null;
  /** Rows to look at. */
  readonly limit: number;
}
export interface Hastened {
  readonly hastened: number;
  /** Rows that were to be made due and were not: somebody else had them locked, or changed them just then. */
  readonly passed: number;
  /** `null`: that was the last part. */
  readonly next: string | null;
}

export interface ParkedStore {
  /**
   * Rows whose time has come and that nobody is sending, oldest due first; and in how many milliseconds the next one
   * will be due (`null`: none).
   */
  due(transport: number, buckets: readonly number[], limit: number): Promise<{ rows: DueRow[]; nextIn: number | null }>;
  /** Fenced: marks rows as `sending` in this epoch and returns them. Rows that an older epoch was sending are taken again. */
  take(request: TakeRequest): Promise<TakeResult>;
  /**
   * Makes rows due now that wait without an attempt, as those for a destination that was away, the first parked first. Looks at
   * none that is scheduled, however many these are. Needs no lease: when a row falls due changes nothing but that. What somebody
   * else has locked is passed, and told.
   */
  hasten(transport: number, buckets: readonly number[], request: HastenRequest): Promise<Hastened>;
  /** Fenced: what happened to rows that were `sending`, with as many attempts as they were sent with. */
  repark(owner: string, leases: readonly Lease[], entries: readonly ReparkEntry[]): Promise<WriteReport>;
  /**
   * Keys that have a blocking row, and whether their first one can go on without waiting (`ready`: blocked or left `sending` by an older epoch).
   * Of each bucket in an order of the store's that is the same each time.
   * @param after the key of each of these buckets behind which to begin
   */
  blockingKeys(
    transport: number,
    buckets: readonly number[],
    limit: number,
    after?: ReadonlyMap<number, string>,
  ): Promise<(KeyInBucket & { ready: boolean })[]>;
  /**
   * Of these keys, those that have a blocking row. `''` in a global order: any row of the bucket that blocks, with a key or
   * without, or is due, as it holds everything.
   */
  blockedAmong(transport: number, keys: readonly KeyInBucket[]): Promise<KeyInBucket[]>;
  /**
   * Deaths that the hook was not told of, transport by transport as they are named, in an order of the store's that is the
   * same each time.
   * @param after of the first of the transports: only those behind it
   */
  unannouncedDead(transports: readonly number[], limit: number, after?: Death): Promise<DeadLetter[]>;
  /** Those that are the same death still: what was told of one says nothing of the next. */
  markAnnounced(deaths: readonly Death[]): Promise<void>;
}

export interface LockedOutcome {
  readonly published: readonly SettledMessage[];
  /** From ready. */
  readonly parked: readonly ParkEntry[];
  /** From parked. */
  readonly reparked: readonly ReparkEntry[];
}
/** What the database did not take, for a reason of its own: the row is as it was. */
export interface Refused<T> {
  readonly entry: T;
  readonly error: unknown;
}
export interface LockedReport {
  /** How many rows were locked. */
  readonly locked: number;
  /** Of the outcome, the same objects. What became of the others is written. */
  readonly refused: readonly Refused<SettledMessage | ParkEntry | ReparkEntry>[];
}
/** Of the session that holds the locks. When it is over, its rows are anybody's: an operator may have cancelled them by now. */
export interface LockSession {
  /** Aborts as soon as the end of the session is noticed. */
  readonly ended: AbortSignal;
  /** Asks the server. @throws when the transaction is over: what it showed may be gone with its server */
  alive(): Promise<unknown>;
}
/** For `coordination: 'rowLock'`, which has no leases, no fences and no order. */
export interface RowLockStore {
  /**
   * Locks up to `limit` ready and due rows that nobody else has locked (`FOR UPDATE SKIP LOCKED`), keeps the transaction
   * open while `work` publishes them, writes what `work` says in the same transaction and commits. Rows that `work` does
   * not name stay as they are. When `work` throws, or the connection breaks, nothing is written.
   */
  withLockedRows(
    request: { transport: number; limit: number; onPublished: 'delete' | 'archive' },
    work: (messages: OutboxMessage[], durable: boolean, session: LockSession) => Promise<LockedOutcome>,
  ): Promise<LockedReport>;
}
