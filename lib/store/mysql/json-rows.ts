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
  const cells = row.flatMap((cell, index) => (cell === null ? [] : [`"c${index}":${jsonCell(cell)}`]));
  return `{${cells.join(',')}}`;
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

export const PLACES = jsonTable({ b: 'smallint', s: 'bigint unsigned', i: ID });
export const PARKED_IDS = jsonTable({ p: 'bigint unsigned' });
export const LEASES = jsonTable({ t: 'smallint', b: 'smallint', e: 'bigint unsigned' });
