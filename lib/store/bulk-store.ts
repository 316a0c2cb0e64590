import type { NewMessage, ParkedState } from '../outbox-message.js';
import type { Change } from './admin-store.js';
import type { RowFilter, RowsById, StoredRow } from './inspect-store.js';

/** SEAM: actions of operators, and the table that says who did what. */

export type AuditAction = Change | 'release' | 'replay' | 'edit' | 'purge' | 'pause' | 'resume';
export type AuditOutcome = 'done' | 'aborted' | 'failed';

export interface NewAction {
  readonly action: AuditAction;
  /** Who acts, for people. */
  readonly actor: string;
  /** JSON text, for people. */
  readonly filter: string;
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
/** All given conditions must hold. */
export interface BulkFilter extends RowFilter {
  readonly ids?: readonly string[];
  readonly states: readonly ParkedState[];
  /** Of what is scheduled only what is due then, as {@link Bounds.at}. */
  readonly scheduledUpTo?: string;
}
export interface BulkRequest {
  readonly filter: BulkFilter;
  readonly bounds: Bounds;
  /** {@link BulkPage.next} of the page before; `null`: from the beginning. */
  readonly after: string | null;
  /** From the last row to the first. */
  readonly backwards: boolean;
  readonly limit: number;
  /** Whether the texts of the errors are wanted. */
  readonly withErrors: boolean;
}
/** A parked row that a filter means. */
export interface BulkRow {
  readonly rowId: string;
  readonly id: string;
  readonly transport: number;
  readonly bucket: number;
  readonly seq: string;
  /** The beginning of its last error, {@link ERROR_LENGTH} characters at most; empty: none, or not asked for. */
  readonly error: string;
}
export interface BulkPage {
  readonly rows: readonly BulkRow[];
  /**
   * Where to go on; `null`: that was the last page. A page looks at a bounded number of rows, whatever the filter: it may have
   * fewer rows than asked for, or none, and not be the last one.
   */
  readonly next: string | null;
}
export interface AuditRow extends NewAction {
  readonly id: string;
  readonly action: AuditAction;
  readonly begunAt: Date | null;
  /** The last time that it wrote anything. */
  readonly touchedAt: Date | null;
  readonly endedAt: Date | null;
  readonly done: number;
  readonly skipped: number;
  /** `null`: it runs, or its process is gone. */
  readonly outcome: AuditOutcome | null;
  readonly error: string | null;
}

export interface BulkStore {
  bounds(): Promise<Bounds>;
  /** Parked rows in the order of their numbers, each once. Only reads. */
  find(request: BulkRequest): Promise<BulkPage>;
  /**
   * Rows of these ids, in all transports: what is ready and what is parked, in the order in which messages move. Only reads, and takes
   * some seconds at most.
   * @param bucket where they all are, if it is known: nothing else that is ready is looked through then
   */
  locate(ids: readonly string[], bucket?: number): Promise<RowsById>;
  /** Writes a new row into the audit table. @returns its number */
  begin(action: NewAction): Promise<string>;
  /**
   * Changes rows that are in one of these states and are not being sent, in one transaction with the counts of the audit row.
   * `requeue`: due now, attempts 0, in its old place of the key's order. `discard` and `cancel`: deleted, and the key's next row
   * becomes due.
   * @returns the id of each row that was changed; `undefined`: the action has ended, or its row is gone, and nothing was changed
   */
  change(
    audit: string,
    change: Change,
    states: readonly ParkedState[],
    rows: readonly BulkRow[],
  ): Promise<string[] | undefined>;
  /**
   * The same of ready rows that nobody can begin to send: deletes them. A store may need several transactions: what those before
   * the end of the action did stays, and is in the audit.
   */
  cancelReady(audit: string, rows: readonly StoredRow[]): Promise<string[] | undefined>;
  /**
   * Lets a blocked key go on: its dead rows stop blocking, its first waiting or blocked row becomes due.
   * @returns how many dead rows block no longer; `undefined` as `change`
   */
  release(audit: string, filter: { key: string; transport?: number }): Promise<number | undefined>;
  /** @returns whether it was this call that ended it */
  end(audit: string, outcome: AuditOutcome, error: string | null): Promise<boolean>;
  /** The last ones first. @param before the number of one: those that began before it */
  audit(before: string | null, limit: number): Promise<AuditRow[]>;
}

/** Rows that one statement looks at. */
export const BULK_LOOK = 20_000;
/** Milliseconds that one statement may take. */
export const BULK_TIMEOUT = 30_000;

/** Ends the transaction of a change whose action has ended: whatever it did is undone. */
export class ActionEnded extends Error {}

/** @returns `undefined` when the action has ended */
export async function unlessEnded<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ActionEnded) return undefined;
    throw error;
  }
}

/** SEAM: publishing again what is in the archive. The archive itself is only read. */

/** All given conditions must hold. */
export interface ReplayFilter {
  readonly ids?: readonly string[];
  readonly transport?: number;
  readonly key?: string;
  readonly topic?: string;
  readonly type?: string;
  /** Published then or later; `null`: from the beginning. */
  readonly from: Date | null;
  /** Published earlier. */
  readonly before: Date;
}
export interface ReplayRequest {
  readonly filter: ReplayFilter;
  /** Behind this {@link ArchivedRow.position}, or {@link ArchivePage.next}; `null`: from the beginning. */
  readonly after: string | null;
  readonly limit: number;
}
/** An archived message without its content. */
export interface ArchivedRow {
  readonly row: StoredRow;
  /** Where it stands, in the order of the publishing. */
  readonly position: string;
  /** Of payload and headers. */
  readonly bytes: number;
  /** It was published by a replay: the message that was published first is another row. */
  readonly isReplay: boolean;
}
export interface ArchivePage {
  readonly rows: readonly ArchivedRow[];
  /**
   * Where to go on; `null`: that was the last page. A page looks at a bounded number of rows, whatever the filter: it may have
   * fewer rows than asked for, or none, and not be the last one.
   */
  readonly next: string | null;
}
/** What a message is made of, as it is stored. */
export type ArchivedMessage = Pick<
  NewMessage,
  'id' | 'transport' | 'topic' | 'key' | 'type' | 'version' | 'contentType' | 'headers' | 'options' | 'payload'
>;
/** How far a replay is: the text in its row of the audit. Whoever does not know it as it is writes nothing. */
export interface ReplayStep {
  readonly audit: string;
  readonly from: string;
  readonly to: string;
}

export interface ReplayStore {
  /** In the order of the publishing. Only reads. */
  find(request: ReplayRequest): Promise<ArchivePage>;
  /** Those that are still there, in the order of the positions. */
  read(positions: readonly string[]): Promise<ArchivedMessage[]>;
  /**
   * Inserts messages as an enqueue does, in one transaction with the counts and the step of the audit row. What is parked under
   * its id is left out.
   * @param skipped that are counted besides
   * @returns how many; `undefined`: the replay has ended, or another call goes on with it, and nothing was written
   */
  write(step: ReplayStep, messages: readonly NewMessage[], skipped: number): Promise<number | undefined>;
  /** Opens a row that is not done; whoever ran it until now writes nothing more. @returns whether it was as it is known */
  resume(step: ReplayStep): Promise<boolean>;
  /** @param state as the row has it. @returns whether it was this call that ended it */
  end(audit: string, state: string, outcome: AuditOutcome, error: string | null): Promise<boolean>;
}
