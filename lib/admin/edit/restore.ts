import { refuse } from '../../options/refuse.js';
import type { EditableContent, EditableRow, EditStore } from '../../store/edit/edit-store.js';
import { keptContent } from './kept-version.js';

/** What a message was before an edit, as it was stored. */
export interface RestoredVersion {
  /** Its number. */
  readonly transport: number;
  /** No edit changes these two. */
  readonly key: string | null;
  readonly version: number;
  readonly content: EditableContent;
}

/** Bytes: more than any row has. */
const WHOLE = 2 ** 30;

/**
 * Reads the version that an edit kept. Ciphertext stays ciphertext.
 * @throws OutboxMessageError `INVALID_MESSAGE`: there is none, or it was purged
 */
export async function versionBefore(
  edits: Pick<EditStore, 'kept'>,
  id: string,
  auditId: string,
): Promise<RestoredVersion> {
  const before = String(BigInt(auditId) + 1n);
  const [row] = await edits.kept({ id, before, limit: 1, previewBytes: WHOLE });
  if (row?.audit !== auditId)
    refuse('restore', `${auditId} is no edit of this message`, 'INVALID_MESSAGE', 'show() lists its edits.');
  const content = keptContent(row.kept);
  if (content === undefined) refuse('restore', `what the message was before edit ${auditId} was purged`);
  const { transport, key, version, topic, type, contentType, headers, options } = content;
  const payload = row.payloadBytes === null ? null : row.preview;
  return { transport, key, version, content: { topic, type, contentType, headers, options, payload } };
}

/**
 * What comes back into a row.
 * @throws OutboxMessageError `INVALID_MESSAGE`: the row is of a later message, which was enqueued with the same id
 */
export function restoredInto(row: Pick<EditableRow, 'key' | 'version'>, before: RestoredVersion): EditableContent {
  if (row.key === before.key && row.version === before.version) return before.content;
  refuse(
    'restore',
    'that edit was of an earlier message with this id, with another key or version',
    'INVALID_MESSAGE',
    'Use edit() with the new values.',
  );
}
