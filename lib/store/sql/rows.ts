import type { FailureRow, RowLease, StoredRow } from '../inspect-store.js';
import { stateName } from '../parked-state.js';
import { readText, type Dialect } from './dialect.js';

type Row = readonly unknown[];

/** Of the columns of {@link MessageColumns}, in their order; what follows them is left. */
export function readRow(dialect: Dialect, row: Row): StoredRow {
  const [state, transport, bucket, seq, id, topic, key, type, version, contentType, ...more] = row;
  const [createdAt, attempts, lastError, dueAt, attemptedAt, diedAt, publishedAt, sendingEpoch, rowId] = more;
  return {
    state: state === 'ready' || state === 'published' ? state : stateName(state),
    transport: Number(transport),
    bucket: Number(bucket),
    seq: String(seq),
    id: String(id),
    topic: String(topic),
    key: dialect.readKey(key),
    type: String(type),
    version: Number(version),
    contentType: String(contentType),
    attempts: Number(attempts),
    lastError: readText(lastError),
    createdAt: dialect.readDate(createdAt),
    dueAt: dialect.readDate(dueAt),
    lastAttemptAt: dialect.readDate(attemptedAt),
    diedAt: dialect.readDate(diedAt),
    publishedAt: dialect.readDate(publishedAt),
    sendingEpoch: readText(sendingEpoch),
    rowId: readText(rowId),
  };
}

/** How many these columns are. */
export const ROW_LENGTH = 19;

/** Select lists of messages in each table, of the same columns. */
export type MessageColumns = Readonly<Record<'ready' | 'parked' | 'archive', string>>;

/** @param row owner, epoch, end, whether it lives, trial: the columns of a left join */
export function readLease(dialect: Dialect, [owner, epoch, expiresAt, isLive, trial]: Row): RowLease | null {
  if (epoch === null || epoch === undefined) return null;
  return {
    owner: readText(owner),
    epoch: String(epoch),
    expiresAt: dialect.readDate(expiresAt),
    isLive: dialect.isTrue(isLive),
    trial: readText(trial),
  };
}

/** Failures with one text, and how many they are. */
export function readFailure(dialect: Dialect, row: Row): FailureRow {
  const [transport, state, type, topic, error, count, first, last, example] = row;
  return {
    transport: Number(transport),
    state: stateName(state) as FailureRow['state'],
    type: String(type),
    topic: String(topic),
    error: String(error),
    count: Number(count),
    firstSeen: dialect.readDate(first),
    lastSeen: dialect.readDate(last),
    exampleId: String(example),
  };
}
