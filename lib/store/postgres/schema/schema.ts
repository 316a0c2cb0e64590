import {
  createSchema,
  literal,
  metaRows,
  tableNames,
  TABLE_NAMES,
  type SchemaDefinition,
  type SchemaScript,
  type TableNames,
} from '../../names.js';
import { ASIDE } from '../partitions/layout.js';
import { createPartitioned } from './archive.js';
import { createTable } from './create-table.js';
import { withLimits } from './limits.js';
import { strictOrder, strictOrderDown } from './strict.js';
import { postgresTables, STAGED } from './tables.js';
import { messagesView } from './view.js';

/** Everything that the outbox has in a PostgreSQL schema. `up` may run again; `down` drops the messages too. */
export function postgresSchema(definition: SchemaDefinition): SchemaScript {
  const names = tableNames(definition, '"');
  const tables = postgresTables(literal(names.object('ready_seq_seq')));
  return {
    up: [
      oneAtATime(definition),
      ...createSchema(definition.schema),
      sameBuckets(names, definition),
      ...TABLE_NAMES.flatMap((table) =>
        table === 'archive' && definition.partitionedArchive === true
          ? createPartitioned(names)
          : createTable(names, table, withLimits(names, table, tables[table], definition)),
      ),
      ...(definition.ordering === 'strict'
        ? [
            ...createTable(names, 'staged', withLimits(names, 'staged', STAGED, definition), 'unlogged table'),
            ...strictOrder(names, definition),
          ]
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
      `drop table if exists ${names.object(ASIDE)}`,
    ],
  };
}

/** `if not exists` does not keep two transactions from making one thing: several processes may start at once. */
export function oneAtATime({ prefix }: Pick<SchemaDefinition, 'prefix'>): string {
  return `do $outbox$ begin perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext(${literal(`${prefix}meta`)})); end $outbox$`;
}

/** With another number of them every row would be where nobody looks for it. */
function sameBuckets({ meta }: TableNames, { buckets }: SchemaDefinition): string {
  return `do $outbox$ begin
  if pg_catalog.to_regclass(${literal(meta)}) is not null then
    if exists (select from ${meta} where name = 'buckets' and value <> '${buckets}') then
      raise exception using message = ${literal(`outbox: the tables were not made with ${buckets} buckets; use the number in ${meta}`)};
    end if;
  end if;
end $outbox$`;
}
