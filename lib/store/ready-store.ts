import type { OutboxMessage, Place } from '../outbox-message.js';
import type { Lease } from './lease-store.js';

/** SEAM: the ready table, for claim and settle. `OutboxStore` says what holds for all roles. */

/**
 * What a read proves about transactions that were still open (PostgreSQL). Decimal strings of 64-bit transaction ids.
 * `undefined` where the database tells nothing (MySQL): there the low-water mark is found by `probe`.
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
  /** Inclusive; absent: to the end. Only where a read returns its snapshot. */
  readonly upTo?: string | undefined;
}
export interface ReadRange extends ReadPosition {
  /** Inclusive. */
  readonly upTo: string;
}
/** Where the numbers of the ready table come from. What is another or lower than before means that numbers may have gone back. */
export interface NumberSource {
  /** Another server behind a pooler or proxy tells another name. */
  readonly server: string | undefined;
  /** What holds the rows: another one after TRUNCATE, or a rewrite that keeps them. */
  readonly table: string | undefined;
  /** The highest number that was given out, 0 when none was; `undefined` where this login may not know. */
  readonly last: string | undefined;
}
export interface FetchResult {
  /** Bucket after bucket, in any order of them; the rows of each together, ascending by `seq`. */
  readonly messages: OutboxMessage[];
  readonly snapshot: Snapshot | undefined;
  /** Whether every message read is known to be on the primary's disk. If not, call `flush` with `session` before publishing. */
  readonly durable: boolean;
  /** Generation of the connection that read; when it changes, the reader starts over. */
  readonly session: number;
  /** As of the same snapshot; where that is a question of its own, with some reads a second. */
  readonly source?: NumberSource | undefined;
  /**
   * A transaction id of our own that was assigned after `source` was read: a transaction with this id or a higher one inserts
   * above `source.last`. Where it was asked for, and reads return snapshots.
   */
  readonly fence?: string | undefined;
}
export interface ProbeResult {
  readonly clean: readonly boolean[];
  readonly now: number;
  /** Milliseconds that a statement of anybody waits for a lock before it fails; absent: less than 50 s. */
  readonly lockWait?: number;
}
export interface SweepResult {
  readonly places: Place[];
  /** False when there are more than one statement returns. */
  readonly complete: boolean;
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
  /**
   * Buckets that one read should cover while more is waiting, where the rows of a bucket lie together and a read of all
   * buckets costs several times as much (InnoDB). Absent: all of them.
   */
  readonly bucketsPerRead?: number;
  /**
   * Reads rows after each position, up to its end, in `seq` order, at most `perBucket` each and `limit` in all. The server
   * gives it up after `within` milliseconds; absent, or where reads return no snapshots: when any statement is given up.
   * @param request.asksFence whether {@link FetchResult.fence} is wanted
   */
  fetch(request: {
    transport: number;
    positions: readonly ReadPosition[];
    within?: number | undefined;
    asksFence?: boolean;
    perBucket: number;
    limit: number;
  }): Promise<FetchResult>;
  /**
   * The lowest places in the ranges, keys only, ascending per bucket; one statement.
   * @param known Rows that the reader holds already. They may be the lowest of all, so that many more places are returned.
   * At most `batchSize` × (`batchesInFlight` + 2), and 10,000 that cannot be parked: some 13,000 by default. A store that
   * always returns more places may disregard it. Otherwise the relay may read nothing new while so many cannot be parked.
   */
  sweep(transport: number, ranges: readonly ReadRange[], known?: number): Promise<SweepResult>;
  /**
   * The rows at these places that are still there, ascending per bucket; with `visibleIn` only those which that snapshot
   * saw: of a transaction that committed later, a sweep may have found one row and not the one before it.
   */
  readPlaces(transport: number, places: readonly Place[], visibleIn: Snapshot | undefined): Promise<FetchResult>;
  /**
   * Payloads that reads of the ready and of the parked table left in the database, by the order of the messages; bytes
   * or text, `undefined` for a row that is gone.
   */
  readPayloads(
    transport: number,
    messages: readonly (Place & { readonly id: string; readonly parkedId: string | null })[],
  ): Promise<(string | Buffer | undefined)[]>;
  /**
   * Where snapshots tell nothing: for each range, whether no uncommitted insert is in it (a dirty read against a committed one);
   * and the database's time, in milliseconds since the epoch. `undefined` where `fetch` returns snapshots.
   */
  probe?(transport: number, ranges: readonly ReadRange[]): Promise<ProbeResult>;
  /** Of the connection that reads, as it is known now, without a statement: what {@link FetchResult.session} tells. */
  readonly session: number;
  /**
   * A durable write that begins now and is on disk when the promise resolves; with it everything read before.
   * @param session of the fetch that read it; rejects when that is over, because a server that died and came back never
   * had what it showed
   */
  flush(session?: number): Promise<void>;
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
