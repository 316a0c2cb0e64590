import { quoteWith } from '../../names.js';
import type { MysqlColumn, MysqlTable } from './tables.js';

/** Shared by the tables; `check` compares it. */
export const TABLE_OPTIONS = 'engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin';

export function createTable(name: string, table: MysqlTable): string {
  const lines = [
    ...table.columns.map(columnSql),
    ...Object.entries(table.keys).map(([key, columns]) => keySql(key, columns)),
    ...Object.entries(table.checks ?? {}).map(([name, condition]) => checkSql(name, condition)),
  ];
  // A server may make tables whose keys hold no more than 767 bytes.
  return `create table if not exists ${name} (\n  ${lines.join(',\n  ')}\n) ${TABLE_OPTIONS} row_format=dynamic`;
}

export const columnSql = ([column, type, rest]: MysqlColumn): string =>
  `${quoteWith('`', column)} ${type} ${rest}`.trim();

export const keySql = (key: string, columns: readonly string[]): string =>
  `${keyKind(key)} (${columns.map((c) => quoteWith('`', c)).join(', ')})`;

export const checkSql = (name: string, condition: string): string =>
  `constraint ${quoteWith('`', name)} check (${condition})`;

function keyKind(key: string): string {
  if (key === 'primary') return 'primary key';
  return key.startsWith('!') ? `unique key ${quoteWith('`', key.slice(1))}` : `key ${quoteWith('`', key)}`;
}
