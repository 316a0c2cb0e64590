import {
  literal,
  metaRows,
  quoteWith,
  SCHEMA_VERSION,
  tableNames,
  TABLE_NAMES,
  type SchemaDefinition,
  type SchemaScript,
  type TableNames,
} from '../../names.js';
import { ASIDE } from '../partitions/layout.js';
import { createPartitioned } from './archive.js';
import { createIndexes, createTable } from './create-table.js';
import { addLimits, dropLimits } from './limits.js';
import { strictOrder, strictOrderDown } from './strict.js';
import type { IndexBeside } from './online.js';
import { columnThere, whenFree } from './when-free.js';
import { IDLE_EPOCH, postgresTables, STAGED } from './tables.js';
import { messagesView, viewFunctions } from './view.js';

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
          : createTable(names, table, tables[table]),
      ),
      ...(definition.ordering === 'strict'
        ? [...createTable(names, 'staged', STAGED, 'unlogged table'), ...strictOrder(names, definition)]
        : []),
      ...messagesView(names, definition),
      `insert into ${names.meta} (name, value) values ${metaRows(definition)
        .map(([name, value]) => `(${literal(name)}, ${literal(value)})`)
        .join(', ')} on conflict (name) do nothing`,
      ...addLimits(names, definition),
      addIdleEpoch(names),
      raiseVersion(names, SCHEMA_VERSION),
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

/**
 * From version 1 to version 2, and back: what is in the tables stays. Others read and write meanwhile, where each statement is
 * a transaction: in one, what a statement locks stays locked until the last has ended.
 */
export function postgresVersion2(definition: SchemaDefinition): SchemaScript {
  const names = tableNames(definition, '"');
  const strict = definition.ordering === 'strict';
  return {
    up: [
      oneAtATime(definition),
      sameBuckets(names, definition),
      ...viewFunctions(definition),
      ...(strict ? strictOrder(names, definition) : []),
      ...addLimits(names, definition),
      ...createIndexes(names, names.dedup, postgresTables('').dedup), // of the id: it was not there
      addIdleEpoch(names),
      raiseVersion(names, 2),
    ],
    down: [
      oneAtATime(definition),
      ...dropLimits(names, definition),
      dropIndex(names, 'dedup'),
      dropIdleEpoch(names),
      `alter function ${names.object('payload_text')}(bytea) reset search_path`,
      `alter function ${names.object('messages_insert')}() reset search_path`,
      ...(strict ? [`alter function ${names.object('staged_move')}() reset lock_timeout`] : []),
      setVersion(names, 1),
    ],
  };
}

/**
 * From version 2 to version 3, and back: the audit of operators' actions, what they paused, and an index of what waits without
 * an attempt. The way back drops them.
 */
export function postgresVersion3(definition: SchemaDefinition): SchemaScript {
  const names = tableNames(definition, '"');
  const create = (table: (typeof ADDED)[number]): string[] => createTable(names, table, postgresTables('')[table]);
  return {
    up: [
      oneAtATime(definition),
      ...ADDED.flatMap(create),
      ...createIndexes(names, names.parked, postgresTables('').parked),
      raiseVersion(names, 3),
    ],
    down: [
      oneAtATime(definition),
      dropIndex(names, 'parked'),
      ...ADDED.map((table) => `drop table if exists ${names[table]}`),
      setVersion(names, 2),
    ],
  };
}

const ADDED = ['audit', 'pauses'] as const;

const setVersion = ({ meta }: TableNames, version: number): string =>
  `update ${meta} set value = '${version}' where name = 'version' and value <> '${version}'`;

/** Tables that were made by this release have its version: the steps of versions before run there as well. */
function raiseVersion(names: TableNames, version: number): string {
  const lower = Array.from({ length: version - 1 }, (_, n) => `'${n + 1}'`);
  return `update ${names.meta} set value = '${version}' where name = 'version' and value in (${lower.join(', ')})`;
}

function addIdleEpoch({ leases }: TableNames): string {
  const [column, type] = IDLE_EPOCH;
  const change = `alter table ${leases} add column ${column} ${type}`;
  return whenFree({ table: leases, when: `not ${columnThere(leases, column)}`, change });
}

function dropIdleEpoch({ leases }: TableNames): string {
  const [column] = IDLE_EPOCH;
  const change = `alter table ${leases} drop column ${column}`;
  return whenFree({ table: leases, when: columnThere(leases, column), change });
}

/** What a version added to tables of the one before. Who writes into them waits while it is built, unless that is done beside. */
const ADDED_INDEXES = { dedup: 'dedup_id', parked: 'parked_untried' } as const;
type Grown = keyof typeof ADDED_INDEXES;
export function buildBeside(table: Grown, definition: SchemaDefinition): IndexBeside {
  const names = tableNames(definition, '"');
  const index = ADDED_INDEXES[table];
  const rest = postgresTables('')[table].indexes?.[index] as string;
  const build = `create index concurrently ${names.index(index)} on ${names[table]} ${rest}`;
  return { index: names.object(index), table: names[table], build };
}

function dropIndex(names: TableNames, table: Grown): string {
  const index = names.object(ADDED_INDEXES[table]);
  const when = `pg_catalog.to_regclass(${literal(index)}) is not null`;
  return whenFree({ table: names[table], when, change: `drop index ${index}` });
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

/** `create schema if not exists` asks for the privilege even when there is nothing to create. */
function createSchema(schema: string | undefined): string[] {
  if (schema === undefined) return [];
  return [
    `do $outbox$ begin if pg_catalog.to_regnamespace(${literal(quoteWith('"', schema))}) is null then ` +
      `create schema ${quoteWith('"', schema)}; end if; end $outbox$`,
  ];
}
