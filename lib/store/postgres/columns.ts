import { LARGE_PAYLOAD } from '../../message/unread-payload.js';
import { OutboxMessage } from '../../outbox-message.js';
import { stateName } from '../parked-state.js';
import { fits, LIMITED_COLUMNS, ROW_LIMITS, type LimitedColumn } from '../limits.js';

/** Columns that move with a message through ready, parked and archive. */
export const MOVED =
  'transport, bucket, seq, id, topic, key, type, version, content_type, headers, options, payload, created_at, async_commit';

/** `text`: what nearly every payload is, at the price of text. `bytes`: what a payload may be; hex costs 10 µs at 4 KB. */
export type PayloadAs = 'text' | 'bytes';
const UNREADABLE_AS_TEXT = new Set(['22021', '22P05']);
export const isNoText = (error: unknown): boolean =>
  UNREADABLE_AS_TEXT.has((error as { code?: string } | null)?.code ?? '');
/** How rows are read: with the payloads that are not large, or, `apart`, with none, so that a damaged one fails by itself. */
export type RowsAs = PayloadAs | 'apart';

/** Payloads as text first; everything once more as bytes when one of them is none. */
export async function textOrBytes<T>(work: (as: PayloadAs) => Promise<T>): Promise<T> {
  try {
    return await work('text');
  } catch (error) {
    if (!isNoText(error)) throw error;
    return work('bytes');
  }
}

/** In place of the bytes of a payload that was left: see `StoredMessage.tooLarge`. */
const TOO_LARGE = -1;

/**
 * Select list of a message; {@link readMessage} knows the order.
 * @param table `parked` keeps rows from before its limits, among the dead; the ready table has none that is too large
 */
export function messageColumns(as: RowsAs, table: 'ready' | 'parked'): string {
  const isLeft = `octet_length(o.payload) > ${as === 'apart' ? 0 : LARGE_PAYLOAD}`;
  const payload =
    as === 'apart'
      ? `case when octet_length(o.payload) = 0 then '' end`
      : `case when ${isLeft} then null else ${payloadColumn(as)} end`;
  const [topic, key, type, headers] = (['topic', 'key', 'type', 'headers'] as const).map((column) =>
    table === 'ready' ? `o.${column}` : clipped(column),
  );
  return `o.bucket, o.seq, o.id, ${topic}, ${key}, ${type}, ${headers}, ${payload}, o.created_at, ${unusualColumn(isLeft, table)}`;
}
/** As many characters as it may have bytes; of headers and options, which would be no JSON then, nothing. */
const clipped = (column: LimitedColumn): string =>
  column === 'headers' || column === 'options'
    ? `case when octet_length(o.${column}) <= ${ROW_LIMITS[column]} then o.${column} end`
    : `left(o.${column}, ${ROW_LIMITS[column]})`;
export const payloadColumn = (as: PayloadAs): string =>
  as === 'text' ? `convert_from(o.payload, 'UTF8')` : 'o.payload';
const USUAL_CONTENT = 'application/json';
/**
 * What nearly every row has alike, in one column that is null for it: a column costs 0.1–0.2 µs a row in Node. Else a
 * JSON array of version, content type, options, whether the commit was asynchronous, and how large a payload is that is
 * left out.
 * @param isLeft whether it is: of a payload that is stored out of line this reads only the pointer
 */
function unusualColumn(isLeft: string, table: 'ready' | 'parked'): string {
  const tooLarge = `(${fits(LIMITED_COLUMNS, 'o.')}) is false`;
  const [contentType, options] =
    table === 'ready' ? ['o.content_type', 'o.options'] : [clipped('content_type'), clipped('options')];
  return `case when o.version = 1 and o.content_type = '${USUAL_CONTENT}' and o.options is null and not o.async_commit
      and (${isLeft}) is not true${table === 'ready' ? '' : ` and (${tooLarge}) is not true`} then null
    else json_build_array(o.version, ${contentType}, ${options}, o.async_commit,
      case ${table === 'ready' ? '' : `when ${tooLarge} then ${TOO_LARGE} `}when ${isLeft} then octet_length(o.payload) else 0 end)::text end`;
}
type Unusual = readonly [
  version: number,
  contentType: string,
  options: string | null,
  asynchronous: boolean,
  unread: number,
];
const AS_USUAL: Unusual = [1, USUAL_CONTENT, null, false, 0];

/** Continues {@link messageColumns} for rows of the parked table. */
export const PARKED_COLUMNS = 'o.parked_id, o.state, o.attempts, o.progress';
const MESSAGE_COLUMN_COUNT = 10;
const UNUSUAL_COLUMN = 9;

/**
 * What a parked row keeps of its failures, after one more: the last `history` as a JSON array, oldest first. `k` is the
 * entry that is written.
 * @param before the column, or nothing for a row that is parked for the first time
 */
export function failures(history: number, before: string | undefined): string {
  if (history === 0) return before ?? 'null';
  const entry = `jsonb_build_array(jsonb_build_object('attempt', k.attempts, 'at', clock_timestamp(), 'error', k.error))`;
  return `case when k.error is null then ${before ?? 'null'} else (select jsonb_agg(e.v order by e.n)::text from
    (select a.v, a.n from jsonb_array_elements(${before === undefined ? '' : `coalesce(${before}, '[]')::jsonb || `}${entry})
      with ordinality a(v, n) order by a.n desc limit ${history}) e) end`;
}

type Row = readonly unknown[];

const unusual = (row: Row): Unusual =>
  row[UNUSUAL_COLUMN] === null ? AS_USUAL : (JSON.parse(row[UNUSUAL_COLUMN] as string) as Unusual);

export const isAsynchronous = (row: Row): boolean => unusual(row)[3];

export function readMessage(row: Row, as: RowsAs): OutboxMessage {
  return build(row, as, NOT_PARKED);
}
export function readParked(row: Row, as: RowsAs): OutboxMessage {
  const [parkedId, state, attempts, progress] = row.slice(MESSAGE_COLUMN_COUNT);
  return build(row, as, {
    attempts: Number(attempts),
    parkedId: parkedId as string,
    parkedState: stateName(state),
    progress: progress as string | null,
  });
}

type Parked = Pick<OutboxMessage, 'attempts' | 'parkedId' | 'parkedState' | 'progress'>;
const NOT_PARKED: Parked = { attempts: 0, parkedId: null, parkedState: null, progress: null };

/** Every column is text (`RAW`), so nothing but the two small numbers is converted. */
function build(row: Row, as: RowsAs, { attempts, parkedId, parkedState, progress }: Parked): OutboxMessage {
  const [version, contentType, optionsJson, , unread] = unusual(row);
  return new OutboxMessage({
    bucket: Number(row[0]),
    seq: row[1] as string,
    id: row[2] as string,
    topic: row[3] as string,
    key: row[4] as string | null,
    type: row[5] as string,
    version,
    contentType,
    headersJson: row[6] as string | null,
    optionsJson,
    body: readPayload(row[7] as string | null, as),
    unread: Math.abs(unread),
    tooLarge: unread === TOO_LARGE,
    createdText: row[8] as string,
    attempts,
    parkedId,
    parkedState,
    progress,
  });
}

export function readPayload(column: string | null, as: RowsAs): string | Buffer | null {
  return as !== 'bytes' || column === null ? column : Buffer.from(column.slice(2), 'hex');
}
