/**
 * The largest row, in bytes, that the tables take and a relay reads. Above all that `enqueue` lets through; far below what
 * ends a process that reads it, such as a text of more than 512 MB.
 */
export const ROW_LIMITS = {
  topic: 1_024,
  key: 1_024,
  type: 1_024,
  content_type: 1_024,
  headers: 524_288, // 64 KiB of control characters are six times as much in JSON
  options: 65_536,
  /** The largest `maxPayloadBytes`, and 1 MiB for what encryption adds. */
  payload: 135_266_304,
} as const;
export type LimitedColumn = keyof typeof ROW_LIMITS;

/** SQL: whether a row is no larger. Of what is stored out of line PostgreSQL reads the length, and not what is in it. */
export function fits(columns: readonly LimitedColumn[], prefix = ''): string {
  return columns.map((column) => `octet_length(${prefix}${column}) <= ${ROW_LIMITS[column]}`).join(' and ');
}
export const LIMITED_COLUMNS = Object.keys(ROW_LIMITS) as readonly LimitedColumn[];

/** The text of a dead message that is larger; it names no value. */
export const TOO_LARGE =
  'The row is larger than the outbox takes: a topic, key, type or content type of more than 1,024 bytes, headers of more than 524,288, options of more than 65,536, or a payload of more than 135,266,304. It was not read. Delete it, or enqueue it with less.';
