import { createHash } from 'node:crypto';
import type { KeptContent, RowVersion } from './edit-store.js';

/** Characters: 64 bits tell versions of one message apart. */
const LENGTH = 16;

/** Names what a row is now: its content, its state and its attempts. Two rows that are the same have the same one. */
export function revisionOf(row: RowVersion): string {
  const { rowId, state, attempts, topic, type, contentType, headers, options, payloadHash } = row;
  const parts = [rowId, state, attempts, topic, type, contentType, headers, options, payloadHash];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, LENGTH);
}

/** What an audit row keeps of it beside the payload. */
export function keptText(row: RowVersion): string {
  const { transport, topic, key, type, version, contentType, headers, options } = row;
  return JSON.stringify({
    ...{ transport, topic, key, type, version, contentType, headers, options },
  } satisfies KeptContent);
}
