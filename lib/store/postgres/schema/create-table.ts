import { literal, type TableNames } from '../../names.js';
import { inCatalog } from './catalog.js';
import type { Table } from './tables.js';

/** @param suffix of the table's name */
export function createTable(
  names: TableNames,
  suffix: string,
  definition: Table,
  kind: 'table' | 'unlogged table' = 'table',
): string[] {
  const target = names.object(suffix);
  return [
    `create ${kind} if not exists ${target} ${tableBody(names, suffix, definition)} with (${definition.storage})`,
    ...createIndexes(names, target, definition),
  ];
}

export function tableBody(names: TableNames, suffix: string, definition: Table): string {
  const lines = [
    ...definition.columns.map((column) => inCatalog(column.join(' ').trim())),
    `constraint ${names.index(`${suffix}_pkey`)} primary key (${definition.key.join(', ')})`,
    ...(definition.constraints ?? []),
  ];
  return `(\n  ${lines.join(',\n  ')}\n)`;
}

/** Even where it is there, `create index if not exists` waits for all who are writing, and others wait behind it. */
export function createIndexes(names: TableNames, target: string, { indexes = {} }: Table): string[] {
  return Object.entries(indexes).map(
    ([suffix, rest]) =>
      `do $outbox$ begin if pg_catalog.to_regclass(${literal(names.object(suffix))}) is null then ` +
      `create index ${names.index(suffix)} on ${target} ${rest}; end if; end $outbox$`,
  );
}
