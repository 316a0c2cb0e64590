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
export interface RowRequest extends RowFilter {
  readonly state: StoredState;
  /** {@link RowPage.next} of the page before; `null`: from the beginning. */
  readonly after: string | null;
  readonly limit: number;
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
export interface RowPage {
  readonly rows: readonly StoredRow[];
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
  /** Ready rows, up to {@link BUCKET_READY_LIMIT}. */
  readonly ready: number;
  readonly oldestReadyAt: Date | null;
}
export interface FailureRequest extends Pick<RowFilter, 'transport' | 'topic' | 'type'> {
  readonly states: readonly ('waiting' | 'dead')[];
  /** Rows of each state to look at. */
  readonly look: number;
}
/** Ready rows of a bucket up to a number. */
export interface ReadyRest {
  readonly transport: number;
  readonly bucket: number;
  /** The lowest number. */
  readonly first: string;
  /** Counted up to {@link BUCKET_READY_LIMIT}. */
  readonly count: number;
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
  /** A page of the rows in one state, in an order of the store's that is the same each time. */
  page(request: RowRequest): Promise<RowPage>;
  /** Rows of these ids, in all transports. It takes some seconds at most. */
  byIds(ids: readonly string[]): Promise<RowsById>;
  /** @returns `undefined` when the row is not there any more */
  content(row: StoredRow, previewBytes: number): Promise<RowContent | undefined>;
  surroundings(row: StoredRow): Promise<RowSurroundings>;
  /** Transactions with writes that are open now: what they wrote nobody else sees. `undefined`: the database does not tell. */
  openTransactions(): Promise<number | undefined>;
  /** The last failures of messages that wait or are dead, among a bounded number of rows. */
  failures(
    request: FailureRequest,
  ): Promise<{ readonly rows: readonly FailureRow[]; readonly looked: number; readonly cut: boolean }>;
  /** Every bucket of every transport, in their order. */
  buckets(transport?: number): Promise<BucketRow[]>;
  /** The highest number of the ready rows that are committed; `null`: there is none. */
  highestReady(): Promise<string | null>;
  /** Buckets that have ready rows up to this number, which the others do not have. */
  readyUpTo(highest: string, transport?: number): Promise<ReadyRest[]>;
}

/** Rows that a page looks at, about. */
export const PAGE_LOOK = 20_000;
export const AHEAD_LIMIT = 1_000;
export const BUCKET_READY_LIMIT = 1_000;
/** Characters of an error that are compared. */
export const ERROR_LENGTH = 1_024;
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
