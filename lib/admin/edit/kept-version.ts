import { printable } from '../../observe/redact/printable.js';
import type { KeptContent, KeptRow } from '../../store/edit/edit-store.js';
import { nameOf } from '../found-message.js';
import { contentView, parsed, type ContentView } from '../content-view.js';

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

export function keptVersion(row: KeptRow, names: ReadonlyMap<number, string>, withPayload: boolean): KeptVersion {
  const { audit, at, actor, filter } = row;
  return {
    auditId: audit,
    at,
    by: printable(actor),
    filter: printable(filter),
    before: detailsOf(row, names, withPayload),
  };
}

function detailsOf(
  { kept, payloadBytes, preview }: KeptRow,
  names: ReadonlyMap<number, string>,
  withPayload: boolean,
): VersionDetails | null {
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
