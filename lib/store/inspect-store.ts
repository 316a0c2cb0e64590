import type { ParkedState } from '../outbox-message.js';
import type { MessageState } from './admin-store.js';

/** SEAM: what people ask about messages. Only reads: locks no row and waits for none. `OutboxStore` says what holds for all roles. */

/** Where a message can be found. */
export type StoredState = MessageState | 'published';

/** All given conditions must hold. */
export interface RowFilter {
  readonly transport?: number;
  readonly key?: string;
  readonly topic?: string;
  readonly type?: string;
  /** Milliseconds since the enqueue, by the database's clock. */
  readonly olderThan?: number;
  readonly youngerThan?: number;
}
/** Some rows, in an order of the store's that is the same each time. */
export interface RowRequest extends RowFilter {
  /** `parked`: whatever waits, by the number of its row, which it keeps whatever becomes of it. */
  readonly state: StoredState | 'parked';
  /** Of rows that are parked, or published. */
  readonly ids?: readonly string[];
  /** Of `parked`. */
  readonly parked?: ParkedRange;
  /** Of `published`. Its rows come with {@link PageRow.archived}. */
  readonly published?: { readonly from: Date | null; readonly before: Date };
  /** {@link RowPage.next} of the page before, or {@link PageRow.position}; `null`: from the beginning. */
  readonly after: string | null;
  /** From the last row to the first. */
  readonly backwards?: boolean;
  readonly limit: number;
  /** Milliseconds. Default {@link LOOK_TIMEOUT}. */
  readonly timeout?: number;
}
export interface ParkedRange {
  readonly states: readonly ParkedState[];
  /** What was parked, or dead, then. */
  readonly bounds: Bounds;
  /** Of what is scheduled only what is due then, as {@link Bounds.at}. */
  readonly scheduledUpTo?: string;
}
/** What was parked when an action began: later rows have larger numbers, later deaths a later time. */
export interface Bounds {
  /** Numbers of rows; `null`: nothing is parked. */
  readonly from: string | null;
  readonly upTo: string | null;
  /** As the store writes a time. */
  readonly at: string;
  /** The next millisecond: what is there is older, as times of rows have microseconds. */
  readonly now: Date;
}
/** One message in one transport, without what the caller wrote into it. */
export interface StoredRow {
  readonly state: StoredState;
  readonly transport: number;
  readonly bucket: number;
  readonly seq: string;
  readonly id: string;
  readonly topic: string;
  readonly key: string | null;
  readonly type: string;
  readonly version: number;
  readonly contentType: string;
  readonly attempts: number;
  readonly lastError: string | null;
  /** By the database's clock. `null`: a time that is none, as a foreign writer may have written it. */
  readonly createdAt: Date | null;
  readonly dueAt: Date | null;
  readonly lastAttemptAt: Date | null;
  readonly diedAt: Date | null;
  readonly publishedAt: Date | null;
  /** Being sent while this is the epoch of the bucket's lease and the lease lasts. */
  readonly sendingEpoch: string | null;
  /** Key of its row in the parked table or, on MariaDB and MySQL, in the archive. */
  readonly rowId: string | null;
}
export interface PageRow extends StoredRow {
  /** Where it stands. */
  readonly position: string;
  /** Bytes of payload and headers; and whether a replay published it, so that another row is what was published first. */
  readonly archived?: { readonly bytes: number; readonly isReplay: boolean };
}
export interface RowPage {
  readonly rows: readonly PageRow[];
  /**
   * Where to go on; `null`: that was the last page. A page looks at a bounded number of rows, whatever the filter: it may have
   * fewer rows than asked for, or none, and not be the last one.
   */
  readonly next: string | null;
}
export interface RowsById {
  readonly rows: readonly StoredRow[];
  /**
   * `false`: there may be more. No index of what is ready, or archived, knows ids. A table that is too long to be looked through may
   * have a message of several transports once more, or one whose id tells no time. Copies that a replay made do not count.
   */
  readonly isComplete: boolean;
}
/** What the caller wrote into a message, as it is stored. */
export interface RowContent {
  readonly headers: string | null;
  readonly options: string | null;
  /** JSON text of the failures that are kept (`retry.errorHistory`). */
  readonly errors: string | null;
  /** `null`: a tombstone. */
  readonly payloadBytes: number | null;
  /** The first bytes of the payload, as many as were asked for. */
  readonly preview: Buffer | null;
  /** Of what waits: SHA-256 in hexadecimal; `null`: a tombstone. */
  readonly payloadHash: string | null;
  /** Whether it has the size that the tables take today. What of one has not is left where it is. */
  readonly fits: boolean;
}
/** What stands around a message in its bucket. */
export interface RowSurroundings {
  /** The database's clock. */
  readonly now: Date;
  /** `null`: the bucket has no lease row. */
  readonly lease: RowLease | null;
  /** The first row of its key that holds the row back. */
  readonly blocker: StoredRow | null;
  /** Ready rows of the bucket before it, up to {@link AHEAD_LIMIT}. */
  readonly ahead: number;
}
export interface RowLease {
  /** Nobody, or who had it last. */
  readonly owner: string | null;
  readonly epoch: string;
  readonly expiresAt: Date | null;
  /** It has an owner and has not run out. */
  readonly isLive: boolean;
  /** The message that the owner publishes by itself. */
  readonly trial: string | null;
}
export interface BucketRow {
  readonly transport: number;
  readonly bucket: number;
  readonly lease: RowLease | null;
  /** Ready rows that are meant, up to {@link BUCKET_READY_LIMIT}. */
  readonly ready: number;
  /** The lowest number of these. */
  readonly first: string | null;
  readonly oldestReadyAt: Date | null;
}
export interface FailureRequest extends Pick<RowFilter, 'transport' | 'topic' | 'type'> {
  readonly states: readonly ('waiting' | 'dead')[];
  /** Rows of each state to look at. */
  readonly look: number;
}
/** Failures with one text. */
export interface FailureRow {
  readonly transport: number;
  readonly type: string;
  readonly topic: string;
  readonly error: string;
  readonly state: 'waiting' | 'dead';
  readonly count: number;
  readonly firstSeen: Date | null;
  readonly lastSeen: Date | null;
  readonly exampleId: string;
}

export interface InspectStore {
  /** What is parked, and the time. */
  bounds(): Promise<Bounds>;
  find(request: RowRequest): Promise<RowPage>;
  /**
   * Rows of these ids, in all transports, in the order in which messages move. It takes some seconds at most.
   * @param waiting only what is not published; and only what is ready in this bucket, if it is known
   */
  byIds(ids: readonly string[], waiting?: { readonly bucket?: number }): Promise<RowsById>;
  /** @returns `undefined` when the row is not there any more */
  content(row: StoredRow, previewBytes: number): Promise<RowContent | undefined>;
  surroundings(row: StoredRow): Promise<RowSurroundings>;
  /** The last failures of messages that wait or are dead, among a bounded number of rows. */
  failures(
    request: FailureRequest,
  ): Promise<{ readonly rows: readonly FailureRow[]; readonly looked: number; readonly cut: boolean }>;
  /** Every bucket of every transport, in their order, with its ready rows: those up to this number. */
  buckets(transport?: number, upTo?: string): Promise<BucketRow[]>;
}

/** Rows that a page looks at, about. */
export const PAGE_LOOK = 20_000;
export const AHEAD_LIMIT = 1_000;
export const BUCKET_READY_LIMIT = 1_000;
/** Characters of an error that are compared. */
export const ERROR_LENGTH = 1_024;
/** Milliseconds that a statement of an action may take, which looks at no more rows than a page. */
export const BULK_TIMEOUT = 30_000;
/** Milliseconds for a look of a page, and for each table that is looked through for an id. */
export const LOOK_TIMEOUT = 2_000;
/** Milliseconds that a look without an index may take before the place is searched for. */
export const QUICK_LOOK = 100;

/**
 * Of rows that were found in the order in which messages move, each once, where it was seen last. What MySQL has scheduled has
 * no number yet, and copies of one message all have that.
 */
export function latestOf(rows: readonly StoredRow[]): StoredRow[] {
  const numberOf = ({ seq, state, rowId }: StoredRow): string => (seq === '0' ? `0 ${state} ${rowId}` : seq);
  const latest = new Map(rows.map((row) => [`${row.transport}/${numberOf(row)}/${row.id}`, row]));
  return [...latest.values()].sort((a, b) => a.transport - b.transport);
}
