import { LARGE_PAYLOAD } from '../../message/unread-payload.js';
import { keyText } from '../../message/key-bytes.js';
import { OutboxMessage, type ParkedState } from '../../outbox-message.js';
import { WAITING, stateName } from '../parked-state.js';
import { fits, ROW_LIMITS } from '../limits.js';

const CONTENT = [
  'id',
  'topic',
  '`key`',
  'type',
  'version',
  'content_type',
  'headers',
  'options',
  'payload',
  'created_at',
];
const MOVED_COLUMNS = ['transport', 'bucket', 'seq', ...CONTENT];
const MESSAGE_COLUMNS = ['bucket', 'seq', ...CONTENT, 'unread'];

/** Columns that move with a message through ready, parked and archive. */
export const MOVED = MOVED_COLUMNS.join(', ');
export const movedFrom = (alias: string): string => MOVED_COLUMNS.map((column) => `${alias}.${column}`).join(', ');

/** In place of the bytes of a payload that was left: see `StoredMessage.tooLarge`. The other columns cannot be so long. */
const TOO_LARGE = -1;

/** Select list of a message; {@link readMessage} knows the order. */
export function messageFrom(alias: string): string {
  const large = `octet_length(${alias}.payload) > ${LARGE_PAYLOAD}`;
  const tooLarge = `(${fits(['headers', 'payload'], `${alias}.`)}) is false`;
  const made: Readonly<Record<string, string>> = {
    headers: `if(octet_length(${alias}.headers) > ${ROW_LIMITS.headers}, null, ${alias}.headers) as headers`,
    payload: `if(${large}, null, ${alias}.payload) as payload`,
    unread: `case when ${tooLarge} then ${TOO_LARGE} when ${large} then octet_length(${alias}.payload) else 0 end as unread`,
  };
  return MESSAGE_COLUMNS.map((column) => made[column] ?? `${alias}.${column}`).join(', ');
}
/** Continues {@link messageFrom} for rows of the parked table. */
export const parkedFrom = (alias: string): string =>
  `${alias}.parked_id, ${alias}.state, ${alias}.attempts, ${alias}.progress`;
const PARKED_OFFSET = MESSAGE_COLUMNS.length;

/** When the entry `k` that is written is due: only what waits has a time. */
export const DUE_AT = `if(k.state = ${WAITING}, utc_timestamp(6) + interval coalesce(k.delay, 0) microsecond, null)`;

/**
 * What a parked row keeps of its failures, after one more: the last `history` as a JSON array, oldest first. `k` is the
 * entry that is written.
 * @param before the column, or nothing for a row that is parked for the first time
 */
export function failures(history: number, before: string | undefined): string {
  if (history === 0) return before ?? 'null';
  const entry = `json_object('attempt', k.attempts, 'at', date_format(utc_timestamp(6), '%Y-%m-%dT%H:%i:%s.%fZ'), 'error', k.error)`;
  if (before === undefined) return `if(k.error is null, null, json_array(${entry}))`;
  const all = `json_array_append(coalesce(${before}, '[]'), '$', ${entry})`;
  const length = `json_length(${before})`;
  // One of them after the other: neither server can remove so many from the front at once.
  const last = Array.from({ length: history - 1 }, (_, i) => history - 1 - i).map(
    (fromEnd) => `json_extract(${before}, concat('$[', ${length} - ${fromEnd}, ']'))`,
  );
  return `case when k.error is null then ${before}
    when ${length} > ${history} then json_array(${[...last, entry].join(', ')})
    when ${length} = ${history} then json_remove(${all}, '$[0]') else ${all} end`;
}

export type Row = readonly unknown[];

export function readMessage(row: Row): OutboxMessage {
  return build(row, 0, null, null, null);
}
export function readParked(row: Row): OutboxMessage {
  const [parkedId, state, attempts, progress] = row.slice(PARKED_OFFSET);
  return build(row, Number(attempts), String(parkedId), stateName(state), progress as string | null);
}

function build(
  row: Row,
  attempts: number,
  parkedId: string | null,
  parkedState: ParkedState | null,
  progress: string | null,
): OutboxMessage {
  const unread = Number(row[12]);
  return new OutboxMessage({
    bucket: row[0] as number,
    seq: row[1] as string,
    id: row[2] as string,
    topic: row[3] as string,
    key: readKey(row[4]),
    type: row[5] as string,
    version: row[6] as number,
    contentType: row[7] as string,
    headersJson: row[8] as string | null,
    optionsJson: row[9] as string | null,
    body: row[10] as Buffer | null,
    createdText: row[11] as string,
    unread: Math.abs(unread),
    tooLarge: unread === TOO_LARGE,
    attempts,
    parkedId,
    parkedState,
    progress,
  });
}

export const readKey = (value: unknown): string | null => (value === null ? null : keyText(value as Buffer));

/** `datetime(6)` text of our UTC sessions → milliseconds since the epoch, with microseconds as fraction. */
export function readTime(text: unknown): number {
  const value = text as string;
  return Date.parse(`${value.slice(0, 10)}T${value.slice(11, 19)}Z`) + Number(value.slice(20).padEnd(6, '0')) / 1000;
}
