import { printable } from '../observe/redact/printable.js';
import { revisionOf } from '../store/edit.js';
import type { RowContent, StoredRow } from '../store/inspect-store.js';
import { contentView, parsed, type ContentView } from './content-view.js';
import type { KeptVersion } from './edit/kept-version.js';
import { toFound, type FoundMessage } from './found-message.js';

/** One message in all its transports. */
export interface MessageDetails {
  readonly id: string;
  /** Empty: nothing of it is there. */
  readonly transports: readonly TransportDetails[];
  /** What it was before its edits, the last 20 first; also of one that is not there any more. */
  readonly edits: readonly KeptVersion[];
  /** `false`: the tables were too long to be looked through. What is missing may be there, also in another transport. */
  readonly complete: boolean;
}
export interface TransportDetails extends FoundMessage, ContentView {
  /** The last failures, oldest first, where `retry.errorHistory` keeps them. */
  readonly errors: readonly KeptFailure[];
  /** For `expect` of `edit()`: of the same message, state and attempts the same. `null`: it cannot be edited now. */
  readonly revision: string | null;
}
export interface KeptFailure {
  readonly attempt: number;
  readonly at: Date | null;
  readonly error: string;
}
export function toDetails(
  row: StoredRow,
  content: RowContent,
  names: ReadonlyMap<number, string>,
  withPayload: boolean,
): TransportDetails {
  const isEditable = row.rowId !== null && row.state !== 'ready' && row.state !== 'published' && content.fits;
  return {
    ...toFound(row, names),
    ...contentView(content, withPayload),
    errors: keptFailures(content.errors),
    revision: isEditable ? revisionOf({ ...row, ...content }) : null,
  };
}

function keptFailures(json: string | null): KeptFailure[] {
  const kept: unknown = json === null ? [] : parsed(json, JSON.parse);
  if (!Array.isArray(kept)) return [];
  return kept.map((each) => {
    const { attempt, at, error } = Object(each) as Record<string, unknown>;
    const time = new Date(typeof at === 'string' ? at : NaN);
    return {
      attempt: Number(attempt),
      at: Number.isNaN(time.getTime()) ? null : time,
      error: printable(typeof error === 'string' ? error : ''),
    };
  });
}
