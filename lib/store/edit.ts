import { createHash } from 'node:crypto';
import type { ParkedState } from '../outbox-message.js';

/** What of a message an operator may change. */
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
/** What of a row a {@link revisionOf} is made from. */
export interface RowVersion extends Omit<EditableContent, 'payload'> {
  readonly rowId: string | null;
  readonly state: string;
  readonly attempts: number;
  /** SHA-256 in hexadecimal; `null`: a tombstone. */
  readonly payloadHash: string | null;
}
/** A row that waits, as an edit reads it. */
export interface EditableRow extends RowVersion, EditableContent {
  readonly id: string;
  readonly transport: number;
  readonly bucket: number;
  readonly state: ParkedState;
  readonly key: string | null;
  readonly version: number;
}
/** What an edit keeps of a message beside its payload. */
export interface KeptContent extends Omit<EditableContent, 'payload'> {
  readonly transport: number;
  readonly key: string | null;
  readonly version: number;
}

/** Characters: 64 bits tell versions of one message apart. */
const LENGTH = 16;

/** Names what a row is now: its content, its state and its attempts. Two rows that are the same have the same one. */
export function revisionOf(row: RowVersion): string {
  const { rowId, state, attempts, topic, type, contentType, headers, options, payloadHash } = row;
  const parts = [rowId, state, attempts, topic, type, contentType, headers, options, payloadHash];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, LENGTH);
}

export function keptText(row: KeptContent): string {
  const { transport, topic, key, type, version, contentType, headers, options } = row;
  return JSON.stringify({
    ...{ transport, topic, key, type, version, contentType, headers, options },
  } satisfies KeptContent);
}

/**
 * Whether an edit makes a row due: it was put off without an attempt for what its old topic waits for, whose end would not free
 * it any more. If the new topic must wait, too, a relay puts it off again.
 */
export function isFreed({ state, attempts, topic }: RowVersion, changes: Partial<EditableContent>): boolean {
  return state === 'waiting' && attempts === 0 && changes.topic !== undefined && changes.topic !== topic;
}
