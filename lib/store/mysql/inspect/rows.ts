import { ERROR_LENGTH, type RowLease, type StoredRow } from '../../inspect-store.js';
import { readKey, readTime, type Row } from '../columns.js';
import { stateName } from '../../parked-state.js';

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

/** Select lists, of the same columns: {@link readRow} knows the order. */
export const ROW_COLUMNS = {
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
} as const;
export const ROW_LENGTH = 19;

export const readDate = (text: unknown): Date | null => {
  const time = text === null || text === undefined ? NaN : Math.floor(readTime(text));
  return Number.isNaN(time) ? null : new Date(time);
};
const textOrNull = (value: unknown): string | null => (value === null ? null : String(value));

export function readRow(row: Row): StoredRow {
  const [state, transport, bucket, seq, id, topic, key, type, version, contentType, ...more] = row;
  const [createdAt, attempts, lastError, dueAt, attemptedAt, diedAt, publishedAt, sendingEpoch, rowId] = more;
  return {
    state: state === 'ready' || state === 'published' ? state : stateName(state),
    transport: Number(transport),
    bucket: Number(bucket),
    seq: String(seq),
    id: String(id),
    topic: String(topic),
    key: readKey(key),
    type: String(type),
    version: Number(version),
    contentType: String(contentType),
    attempts: Number(attempts),
    lastError: textOrNull(lastError),
    createdAt: readDate(createdAt),
    dueAt: readDate(dueAt),
    lastAttemptAt: readDate(attemptedAt),
    diedAt: readDate(diedAt),
    publishedAt: readDate(publishedAt),
    sendingEpoch: textOrNull(sendingEpoch),
    rowId: textOrNull(rowId),
  };
}

export const LEASE_COLUMNS = `l.owner, l.epoch, l.expires_at, l.owner is not null and l.expires_at > utc_timestamp(6), l.trial`;

/** @param row the columns of a left join */
export function readLease([owner, epoch, expiresAt, isLive, trial]: Row): RowLease | null {
  if (epoch === null || epoch === undefined) return null;
  return {
    owner: textOrNull(owner),
    epoch: String(epoch),
    expiresAt: readDate(expiresAt),
    isLive: Number(isLive) === 1,
    trial: textOrNull(trial),
  };
}
