import type { Place } from '../../outbox-message.js';

/**
 * Lists travel as one JSON parameter that `json_table` unfolds: with a `straight_join` the plan is one primary-key
 * look-up per element at every size, where a list of literals turns into a materialised table above 300 elements.
 */
export type JsonCell = string | number | bigint | boolean | null;

export function jsonRows(rows: readonly (readonly JsonCell[])[]): string {
  return `[${rows.map(jsonRow).join(',')}]`;
}

/** Objects, because a null is left out: MySQL 8.0.15 reads one of JSON as the text `null`, or refuses it for a number. */
function jsonRow(row: readonly JsonCell[]): string {
  let cells = '';
  for (let index = 0; index < row.length; index++) {
    const cell = row[index] as JsonCell;
    if (cell !== null) cells += `${cells === '' ? '' : ','}"c${index}":${jsonCell(cell)}`;
  }
  return `{${cells}}`;
}

/** Sequences are passed as bigint: digits in JSON, exact beyond 2^53. */
function jsonCell(cell: Exclude<JsonCell, null>): string {
  return typeof cell === 'bigint'
    ? String(cell)
    : typeof cell === 'boolean'
      ? cell
        ? '1'
        : '0'
      : JSON.stringify(cell);
}

export const ID = `char(36) character set ascii collate ascii_bin`;

/** Without a character set it would be that of the database, which may lack letters. */
export const TEXT = 'text character set utf8mb4';
export const MEDIUMTEXT = `medium${TEXT}`;

/** A table expression `k` over one parameter made by {@link jsonRows}; name → type of each element of a row. */
export function jsonTable(columns: Readonly<Record<string, string>>): string {
  const list = Object.entries(columns).map(([name, type], index) => `${name} ${type} path '$.c${index}'`);
  return `json_table(?, '$[*]' columns (${list.join(', ')})) k`;
}

/**
 * Each element of a list looked up in an index. Forced: a small table the optimizer would rather read as a whole, and a
 * locking statement waits for every row that it reads, also for those of other instances' open transactions.
 */
export function lookUp(list: string, table: string, index = 'primary'): string {
  return `${list} straight_join ${table} force index (${index})`;
}

/**
 * The places of rows, with their ids where rows of other ids are not meant. A row of it is an array: no cell is null, and
 * the driver has no names to escape. Each message that is published is in such a list.
 */
export const PLACES = `json_table(?, '$[*]' columns (
  b smallint path '$[0]', s bigint unsigned path '$[1]', i ${ID} path '$[2]')) k`;

/** The parameter of {@link PLACES}. */
export function placeRows(places: readonly (Pick<Place, 'bucket' | 'seq'> & { readonly id?: string })[]): string {
  let list = '';
  for (const { bucket, seq, id } of places) {
    list += `${list === '' ? '' : ','}[${bucket},${seq}${id === undefined ? '' : `,${JSON.stringify(id)}`}]`;
  }
  return `[${list}]`;
}

export const PARKED_IDS = jsonTable({ p: 'bigint unsigned' });
/** The parameter of {@link PARKED_IDS}. */
export const idRows = (ids: readonly string[]): string => jsonRows(ids.map((id) => [BigInt(id)]));
export const LEASES = jsonTable({ t: 'smallint', b: 'smallint', e: 'bigint unsigned' });
