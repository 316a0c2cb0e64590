import {
  literal,
  metaRows,
  quoteWith,
  tableNames,
  TABLE_NAMES,
  type SchemaDefinition,
  type SchemaScript,
  type TableName,
  type TableNames,
} from './names.js';
import { strictOrder, strictOrderDown } from './postgres-strict.js';
import { postgresTables, STAGED, type Table } from './postgres-tables.js';
import { messagesView } from './postgres-view.js';

/** Everything that the outbox has in a PostgreSQL schema. `up` may run again; `down` drops the messages too. */
export function postgresSchema(definition: SchemaDefinition): SchemaScript {
  const names = tableNames(definition, '"');
  const tables = postgresTables(literal(names.object('ready_seq_seq')));
  return {
    up: [
      ...createSchema(definition.schema),
      ...TABLE_NAMES.flatMap((table) => createTable(names, table, tables[table])),
      ...(definition.ordering === 'strict'
        ? [...createTable(names, 'staged', STAGED, 'unlogged table'), ...strictOrder(names, definition)]
        : []),
      ...messagesView(names, definition),
      `insert into ${names.meta} (name, value) values ${metaRows(definition)
        .map(([name, value]) => `(${literal(name)}, ${literal(value)})`)
        .join(', ')} on conflict (name) do nothing`,
    ],
    down: [
      `drop view if exists ${names.messages}`,
      `drop function if exists ${names.object('messages_insert')}()`,
      `drop function if exists ${names.object('payload_text')}(bytea)`,
      ...strictOrderDown(names),
      // parked takes its numbers from the sequence of ready
      ...(['parked', ...TABLE_NAMES.filter((table) => table !== 'parked')] as const).map(
        (table) => `drop table if exists ${names[table]}`,
      ),
    ],
  };
}

/** `create schema if not exists` asks for the privilege even when there is nothing to create. */
function createSchema(schema: string | undefined): string[] {
  if (schema === undefined) return [];
  return [
    `do $outbox$ begin if to_regnamespace(${literal(quoteWith('"', schema))}) is null then ` +
      `create schema ${quoteWith('"', schema)}; end if; end $outbox$`,
  ];
}

function createTable(
  names: TableNames,
  table: TableName | 'staged',
  definition: Table,
  kind: 'table' | 'unlogged table' = 'table',
): string[] {
  const lines = [
    ...definition.columns.map((column) => column.join(' ').trim()),
    `constraint ${names.index(`${table}_pkey`)} primary key (${definition.key.join(', ')})`,
    ...(definition.constraints ?? []),
  ];
  const target = names[table];
  return [
    `create ${kind} if not exists ${target} (\n  ${lines.join(',\n  ')}\n) with (${definition.storage})`,
    ...Object.entries(definition.indexes ?? {}).map(
      ([suffix, rest]) => `create index if not exists ${names.index(suffix)} on ${target} ${rest}`,
    ),
  ];
}
