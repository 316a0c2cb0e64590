import { ERROR_LENGTH } from '../../inspect-store.js';
import { readTime } from '../columns.js';
import type { OrderColumn } from '../../sql/pages.js';
import type { MessageColumns } from '../../sql/rows.js';

const MESSAGE = ['transport', 'bucket', 'seq', 'id', 'topic', '`key`', 'type', 'version', 'content_type', 'created_at'];
const PARKED = [
  'attempts',
  `left(last_error, ${ERROR_LENGTH})`,
  'due_at',
  'attempted_at',
  'died_at',
  'null',
  'sending_epoch',
];

/** Each with a name of its own: a table that a statement makes takes no name twice. */
const named = (columns: readonly string[]): string => columns.map((column, n) => `${column} as c${n}`).join(', ');

export const ROW_COLUMNS: MessageColumns = {
  ready: named([`'ready'`, ...MESSAGE, '0', 'null', 'null', 'null', 'null', 'null', 'null', 'null']),
  parked: named(['state', ...MESSAGE, ...PARKED, 'parked_id']),
  archive: named([
    `'published'`,
    ...MESSAGE,
    'attempts',
    'null',
    'null',
    'published_at',
    'null',
    'published_at',
    'null',
    'archive_id',
  ]),
};
export const ARCHIVE_ORDER: readonly OrderColumn[] = [
  { name: 'published_at', part: 'time' },
  { name: 'archive_id', part: 'number' },
];

export const readDate = (text: unknown): Date | null => {
  const time = text === null || text === undefined ? NaN : Math.floor(readTime(text));
  return Number.isNaN(time) ? null : new Date(time);
};
export const LEASE_COLUMNS = `l.owner, l.epoch, l.expires_at, l.owner is not null and l.expires_at > utc_timestamp(6), l.trial`;
