import { printable } from '../../observe/redact/printable.js';
import { refuse } from '../../options/refuse.js';
import type { EditableContent, EditableRow, KeptContent } from '../../store/edit.js';
import type { AuditRow, OperatorStore } from '../../store/operator-store.js';
import { nameOf } from '../found-message.js';
import { contentView, parsed, WHOLE, type ContentView } from '../content-view.js';

/** What a message was before an edit. */
export interface KeptVersion {
  /** Of the edit, in `audit()`. */
  readonly auditId: string;
  readonly at: Date | null;
  readonly by: string;
  /** What was asked for, as JSON text. */
  readonly filter: string;
  /** `null`: it was purged. */
  readonly before: VersionDetails | null;
}
/** A message as it was, without values of headers. */
export interface VersionDetails extends ContentView {
  readonly transport: string;
  readonly topic: string;
  readonly type: string;
  readonly contentType: string;
}

export function keptVersion(row: AuditRow, names: ReadonlyMap<number, string>, withPayload: boolean): KeptVersion {
  const { id, begunAt, actor, filter } = row;
  const before = detailsOf(row, names, withPayload);
  return { auditId: id, at: begunAt, by: printable(actor), filter: printable(filter), before };
}

function detailsOf(
  { edit }: AuditRow,
  names: ReadonlyMap<number, string>,
  withPayload: boolean,
): VersionDetails | null {
  const { kept = null, payloadBytes = null, preview = null } = edit ?? {};
  const content = keptContent(kept);
  if (content === undefined) return null;
  const { transport, topic, type, contentType, headers, options } = content;
  return {
    transport: nameOf(transport, names),
    topic: printable(topic),
    type: printable(type),
    contentType: printable(contentType),
    ...contentView({ headers, options, payloadBytes, preview }, withPayload),
  };
}

export function keptContent(kept: string | null): KeptContent | undefined {
  return kept === null ? undefined : parsed(kept, (text) => JSON.parse(text) as KeptContent);
}

/** What a message was before an edit, as it was stored. */
export interface RestoredVersion {
  /** Its number. */
  readonly transport: number;
  /** No edit changes these two. */
  readonly key: string | null;
  readonly version: number;
  readonly content: EditableContent;
}

/**
 * Reads the version that an edit kept. Ciphertext stays ciphertext.
 * @throws OutboxMessageError `INVALID_MESSAGE`: there is none, or it was purged
 */
export async function versionBefore(
  operators: Pick<OperatorStore, 'audit'>,
  id: string,
  auditId: string,
): Promise<RestoredVersion> {
  const before = String(BigInt(auditId) + 1n);
  const [row] = await operators.audit({ before, limit: 1, edits: { id, previewBytes: WHOLE } });
  const { kept = null, payloadBytes = null, preview = null } = row?.edit ?? {};
  if (row?.id !== auditId)
    refuse('restore', `${auditId} is no edit of this message`, 'INVALID_MESSAGE', 'show() lists its edits.');
  const content = keptContent(kept);
  if (content === undefined) refuse('restore', `what the message was before edit ${auditId} was purged`);
  const { transport, key, version, topic, type, contentType, headers, options } = content;
  const payload = payloadBytes === null ? null : preview;
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
