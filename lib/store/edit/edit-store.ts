import type { ParkedState } from '../../outbox-message.js';

/** SEAM: one message is corrected by an operator. `OutboxStore` says what holds for all roles. */

/** What of a message may change. */
export interface EditableContent {
  readonly topic: string;
  readonly type: string;
  readonly contentType: string;
  /** JSON as it is stored. */
  readonly headers: string | null;
  /** JSON as it is stored. */
  readonly options: string | null;
  /** As it is stored: of an encrypted one the ciphertext. `null`: a tombstone. */
  readonly payload: Buffer | null;
}
/** Where a message waits. */
export interface ParkedPlace {
  readonly rowId: string;
  readonly transport: number;
  readonly state: ParkedState;
}
/** What of a row a {@link revisionOf} is made from. */
export interface RowVersion extends ParkedPlace, Omit<EditableContent, 'payload'> {
  readonly id: string;
  readonly key: string | null;
  readonly version: number;
  readonly attempts: number;
  /** SHA-256 in hexadecimal; `null`: a tombstone. */
  readonly payloadHash: string | null;
  /** Whether it has the size that the tables take today. Of one that has not nothing is read: every text is empty. */
  readonly fits: boolean;
}
export interface EditableRow extends RowVersion, EditableContent {}

export interface EditRequest {
  readonly rowId: string;
  /** What the change was made from. */
  readonly revision: string;
  /** What differs alone. */
  readonly changes: Partial<EditableContent>;
  /** Due now, attempts 0: as {@link AdminStore.requeue}. */
  readonly requeue: boolean;
  readonly actor: string;
  /** What was asked for as JSON text, for the audit. Holds no value of a header and nothing of a payload. */
  readonly filter: string;
}
/** `sending`: an instance has it; `changed`: it is not as it was, or not there any more. Nothing was written then. */
export type EditOutcome =
  | { readonly outcome: 'edited'; readonly audit: string; readonly revision: string }
  | { readonly outcome: 'sending' | 'changed' };

/** What a message was before an edit. */
export interface KeptRow {
  readonly audit: string;
  readonly id: string;
  readonly actor: string;
  readonly at: Date | null;
  readonly filter: string;
  /** `null`: it was purged. JSON text of {@link KeptContent}. */
  readonly kept: string | null;
  readonly payloadBytes: number | null;
  readonly preview: Buffer | null;
}
/** Beside its payload. */
export interface KeptContent extends Omit<EditableContent, 'payload'> {
  readonly transport: number;
  readonly key: string | null;
  readonly version: number;
}
export interface KeptRequest {
  /** Of this message; absent: of all. */
  readonly id?: string;
  /** The number of an action: those that began before it. */
  readonly before: string | null;
  readonly limit: number;
  readonly previewBytes: number;
}

export interface EditStore {
  /** Where a message waits, in each of its transports. What is ready or archived is not among it. */
  places(id: string): Promise<ParkedPlace[]>;
  /** @returns `undefined`: the row is not there any more */
  version(rowId: string): Promise<RowVersion | undefined>;
  /** The same with the payload. */
  read(rowId: string): Promise<EditableRow | undefined>;
  /**
   * Changes a row that nobody is sending and that is as its revision says, keeps what it was, and writes the audit: in one
   * transaction, in which leases and row are locked before they are looked at.
   */
  edit(request: EditRequest): Promise<EditOutcome>;
  /** What messages were before their edits, the last edits first. */
  kept(request: KeptRequest): Promise<KeptRow[]>;
}
/** Versions of one message that are shown. */
export const KEPT_SHOWN = 20;
