import type { NewMessage, ParkedState } from '../outbox-message.js';
import type { Change } from './admin-store.js';
import type { EditableContent } from './edit.js';
import type { StoredRow } from './inspect-store.js';
import type { NamedPause, PauseScope } from './pauses/pause-store.js';

/**
 * SEAM: what operators do, step by step, and the table that says who did what. `OutboxStore` says what holds for all roles.
 *
 * An action begins with a row of the audit. Each of its steps is one short transaction: it locks the leases of the rows, then the
 * rows, looks at them, writes, and counts in the row of the audit. An action of which nobody hears any more stays there without
 * an outcome. Once it has ended, by whomever, no step of it writes anything; a replay may be opened again.
 */
export interface OperatorStore {
  /** @returns the number of its row in the audit */
  begin(action: NewAction): Promise<string>;
  /** @returns `undefined`: the action has ended, or its row is gone or not as it is known, and nothing was changed */
  step(audit: string, step: Step): Promise<StepReport | undefined>;
  /** An action of one step: begins, writes and ends in one transaction. */
  act(action: NewAction, step: WorkStep): Promise<ActReport | Refusal>;
  /** The last ones first. */
  audit(request: AuditRequest): Promise<AuditRow[]>;
  /** What is made of archived messages at these positions: of those that are still there, in the order of the positions. */
  archived(positions: readonly string[]): Promise<ArchivedMessage[]>;
  /** What is paused, the oldest first. Relays hear of it with the answers of `beat` and `living`. */
  pauses(): Promise<NamedPause[]>;
}

/** What the audit tells of. */
export type AuditAction = Change | 'release' | 'replay' | 'edit' | 'purge' | 'pause' | 'resume';
export type AuditOutcome = 'done' | 'aborted' | 'failed';

export interface NewAction {
  readonly action: AuditAction;
  /** Who acts, for people. */
  readonly actor: string;
  /** JSON text, for people. Holds no value of a header and nothing of a payload. */
  readonly filter: string;
}

export type Step = WorkStep | EndStep | ReopenStep;
export type WorkStep =
  ChangeStep | ReadyStep | ReleaseStep | PurgeStep | ForgetStep | InsertStep | EditStep | PauseStep;

export interface EndStep {
  readonly do: 'end';
  readonly outcome: AuditOutcome;
  readonly error: string | null;
  /** Only while its row has this filter. */
  readonly from?: string;
}
/** Opens a replay that is not done, where its filter is as it is known: whoever ran it until now writes nothing more. */
export interface ReopenStep {
  readonly do: 'reopen';
  readonly from: string;
  readonly to: string;
}

/**
 * Rows that are in one of these states and are not being sent. `requeue`: due now, attempts 0, in its old place of the key's order.
 * `discard` and `cancel`: deleted, and the key's next row becomes due.
 */
export interface ChangeStep {
  readonly do: Change;
  readonly states: readonly ParkedState[];
  readonly rows: readonly StoredRow[];
}
/** Deletes ready rows of buckets that nobody leases, so that nobody can begin to send them. */
export interface ReadyStep {
  readonly do: 'cancel ready';
  readonly rows: readonly StoredRow[];
}
/** Lets a blocked key go on: its dead rows stop blocking, its first waiting or blocked row becomes due. */
export interface ReleaseStep {
  readonly do: 'release';
  readonly key: string;
  readonly transport?: number | undefined;
}
/** Deletes archived rows, past those that somebody else deletes just now. */
export interface PurgeStep {
  readonly do: 'purge';
  readonly positions: readonly string[];
}
/** Deletes what messages were before these edits. That they were edited stays. */
export interface ForgetStep {
  readonly do: 'forget';
  readonly edits: readonly string[];
}
/** Inserts messages as an enqueue does. What is parked under its id is left out. */
export interface InsertStep {
  readonly do: 'insert';
  readonly messages: readonly NewMessage[];
  /** Counted besides. */
  readonly skipped: number;
  /** How far the replay is: the filter of its row. Whoever does not know it as it is writes nothing. */
  readonly from: string;
  readonly to: string;
}
/** Changes one row that nobody is sending and that is as its revision says, and keeps what it was. Of an `act` alone. */
export interface EditStep {
  readonly do: 'edit';
  readonly row: Pick<StoredRow, 'rowId' | 'transport' | 'bucket'>;
  /** What the change was made from. */
  readonly revision: string;
  /** What differs alone. */
  readonly changes: Partial<EditableContent>;
  /** Due now, attempts 0: as {@link ChangeStep}. */
  readonly requeue: boolean;
}
/** What is paused already stays as it is, with its first actor and reason. Of an `act` alone. */
export interface PauseStep {
  readonly do: 'pause' | 'resume';
  readonly scope: PauseScope;
  readonly actor: string;
  /** For people. */
  readonly reason: string;
}

export interface StepReport {
  readonly done: number;
  /** Those that were meant and not changed. */
  readonly skipped: number;
  /** The id of each row that was changed, where rows were given. */
  readonly ids: readonly string[];
}
export interface ActReport {
  readonly audit: string;
  readonly done: number;
  /** Of an edited row as it is now. */
  readonly revision?: string;
}
/** `sending`: an instance has the row; `changed`: it is not as it was, or not there any more. Nothing was written then. */
export interface Refusal {
  readonly refused: 'sending' | 'changed';
}

export interface AuditRequest {
  /** The number of one: those that began before it. */
  readonly before: string | null;
  readonly limit: number;
  /** Edits alone, of one message or of all, with what the messages were. */
  readonly edits?: { readonly id?: string; readonly previewBytes: number };
}
export interface AuditRow extends NewAction {
  readonly id: string;
  readonly begunAt: Date | null;
  /** The last time that it wrote anything. */
  readonly touchedAt: Date | null;
  readonly endedAt: Date | null;
  readonly done: number;
  readonly skipped: number;
  /** `null`: it runs, or its process is gone. */
  readonly outcome: AuditOutcome | null;
  readonly error: string | null;
  readonly edit?: KeptVersion;
}
/** What a message was before an edit. */
export interface KeptVersion {
  /** Of the message. */
  readonly id: string;
  /** `null`: it was purged. JSON text of `KeptContent`. */
  readonly kept: string | null;
  readonly payloadBytes: number | null;
  readonly preview: Buffer | null;
}

/** What a message is made of, as it is stored. */
export type ArchivedMessage = Pick<
  NewMessage,
  'id' | 'transport' | 'topic' | 'key' | 'type' | 'version' | 'contentType' | 'headers' | 'options' | 'payload'
>;
