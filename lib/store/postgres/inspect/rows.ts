import { ERROR_LENGTH, type RowLease, type StoredRow } from '../../inspect-store.js';
import { stateName } from '../../parked-state.js';

type Row = readonly unknown[];

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

/** Select lists, of the same columns: {@link readRow} knows the order. */
export const ROW_COLUMNS = {
  ready: `'ready', ${MESSAGE}, ${created}, 0, null, null, null, null, null, null, null`,
  parked: `o.state::text, ${MESSAGE}, ${created}, o.attempts, substring(o.last_error from 1 for ${ERROR_LENGTH}), ${utc('o.due_at')},
    ${utc('o.attempted_at')}, ${utc('o.died_at')}, null, o.sending_epoch, o.parked_id`,
  archive: `'published', ${MESSAGE}, ${created}, o.attempts, null, null, ${utc('o.published_at')}, null, ${utc('o.published_at')}, null, null`,
} as const;
export const ROW_LENGTH = 19;

export function readRow(row: Row): StoredRow {
  const [state, transport, bucket, seq, id, topic, key, type, version, contentType, ...more] = row;
  const [createdAt, attempts, lastError, dueAt, attemptedAt, diedAt, publishedAt, sendingEpoch, rowId] = more;
  return {
    state: state === 'ready' || state === 'published' ? state : stateName(state),
    transport: Number(transport),
    bucket: Number(bucket),
    seq: seq as string,
    id: id as string,
    topic: topic as string,
    key: key as string | null,
    type: type as string,
    version: Number(version),
    contentType: contentType as string,
    attempts: Number(attempts),
    lastError: lastError as string | null,
    createdAt: readDate(createdAt),
    dueAt: readDate(dueAt),
    lastAttemptAt: readDate(attemptedAt),
    diedAt: readDate(diedAt),
    publishedAt: readDate(publishedAt),
    sendingEpoch: sendingEpoch as string | null,
    rowId: rowId as string | null,
  };
}

export const LEASE_COLUMNS = `l.owner, l.epoch, ${utc('l.expires_at')}, l.owner is not null and l.expires_at > clock_timestamp(), l.trial`;

/** @param row the columns of a left join */
export function readLease([owner, epoch, expiresAt, isLive, trial]: Row): RowLease | null {
  if (epoch === null) return null;
  return {
    owner: owner as string | null,
    epoch: epoch as string,
    expiresAt: readDate(expiresAt),
    isLive: isLive === 't',
    trial: trial as string | null,
  };
}
