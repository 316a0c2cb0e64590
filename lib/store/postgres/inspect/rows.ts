import { ERROR_LENGTH } from '../../inspect-store.js';
import type { OrderColumn } from '../../sql/pages.js';
import type { MessageColumns } from '../../sql/rows.js';

/** A time in UTC that every session reads back as it was, to the microsecond, whatever its settings are. */
export const utc = (time: string): string =>
  `case when isfinite(${time}) then to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') else ${time}::text end`;

/** `null`: no time, or one that no calendar has. */
export function readDate(text: unknown): Date | null {
  const time = text === null ? NaN : Date.parse(text as string);
  return Number.isNaN(time) ? null : new Date(time);
}

const MESSAGE = 'o.transport, o.bucket, o.seq, o.id, o.topic, o.key, o.type, o.version, o.content_type';
const created = utc('o.created_at');

export const ROW_COLUMNS: MessageColumns = {
  ready: `'ready', ${MESSAGE}, ${created}, 0, null, null, null, null, null, null, null`,
  parked: `o.state::text, ${MESSAGE}, ${created}, o.attempts, substring(o.last_error from 1 for ${ERROR_LENGTH}), ${utc('o.due_at')},
    ${utc('o.attempted_at')}, ${utc('o.died_at')}, null, o.sending_epoch, o.parked_id`,
  archive: `'published', ${MESSAGE}, ${created}, o.attempts, null, null, ${utc('o.published_at')}, null, ${utc('o.published_at')}, null, null`,
};
/** The key of the archive. */
export const ARCHIVE_ORDER: readonly OrderColumn[] = [
  { name: 'o.published_at', part: 'time' },
  { name: 'o.transport', part: 'number' },
  { name: 'o.bucket', part: 'number' },
  { name: 'o.seq', part: 'number' },
];

export const LEASE_COLUMNS = `l.owner, l.epoch, ${utc('l.expires_at')}, l.owner is not null and l.expires_at > clock_timestamp(), l.trial`;
