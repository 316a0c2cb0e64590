import { ASIDE } from '../partitions/layout.js';
import { createPartitioned } from './archive.js';
import { columnSql, createTable, keySql } from './create-table.js';
import { fillKeyLocks, KEY_LOCK_TABLE } from './strict.js';
import { bucketSql, IDLE_EPOCH, mysqlTables } from './tables.js';
import {
  metaRows,
  quoteWith,
  TABLE_NAMES,
  tableNames,
  type SchemaDefinition,
  type SchemaScript,
  type TableNames,
} from '../../names.js';

/** One statement per element; may run twice. The database itself must exist. */
export function mysqlSchemaUp(definition: SchemaDefinition): string[] {
  const names = tableNames(definition, '`');
  const tables = mysqlTables(definition);
  const meta = metaRows(definition).map(([name, value]) => `('${name}', '${value}')`);
  return [
    ...TABLE_NAMES.map((table) =>
      table === 'archive' && definition.partitionedArchive === true
        ? createPartitioned(names.archive, definition)
        : createTable(names[table], tables[table]),
    ),
    ...(definition.ordering === 'strict'
      ? [createTable(names.keyLocks, KEY_LOCK_TABLE), fillKeyLocks(names.keyLocks)]
      : []),
    messagesView(names),
    `insert into ${names.meta} (name, value) values ${meta.join(', ')} on duplicate key update value = value`,
    ...mysqlVersion2(definition).up,
    ...mysqlVersion3(definition).up,
  ];
}

/** Makes what is missing, and the view anew; changes no table that is there. */
export const UP_AGAIN = '(run the up of outboxSql() again)';

/** Tables whose rows others may write. */
export const LIMITED = ['ready', 'parked'] as const;
/** A row with another bucket lies where nobody looks for it. */
export const LIMITS = 'limits';
export const inRange = (buckets: number): string => `bucket between 0 and ${buckets - 1}`;

const setVersion = ({ meta }: TableNames, from: number, to: number): string =>
  `update ${meta} set value = '${to}' where name = 'version' and value = '${from}'`;

/** From version 1 to version 2, and back: what is in the tables stays. */
export function mysqlVersion2(definition: SchemaDefinition): SchemaScript {
  const names = tableNames(definition, '`');
  const each = (build: (table: (typeof LIMITED)[number]) => string[]): string[] => LIMITED.flatMap(build);
  return {
    up: [
      ...each((table) => addLimits(names, table, definition)),
      ...addIdKey(names, definition),
      ...addIdleEpoch(names, definition),
      setVersion(names, 1, 2),
    ],
    down: [
      ...each((table) => dropLimits(names, table, definition)),
      ...dropIdKey(names, definition),
      ...dropIdleEpoch(names, definition),
      setVersion(names, 2, 1),
    ],
  };
}

/**
 * From version 2 to version 3, and back: the audit of operators' actions and what they paused, which the way back drops, and copies
 * of a message that wait side by side. What the way back may fail for comes first: then nothing has changed.
 */
export function mysqlVersion3(definition: SchemaDefinition): SchemaScript {
  const names = tableNames(definition, '`');
  return {
    up: [
      createTable(names.audit, mysqlTables(definition).audit),
      createTable(names.pauses, mysqlTables(definition).pauses),
      ...makeIdKey(names, definition, { unique: false }),
      setVersion(names, 2, 3),
    ],
    down: [
      ...makeIdKey(names, definition, { unique: true }),
      `drop table if exists ${names.audit}`,
      `drop table if exists ${names.pauses}`,
      setVersion(names, 3, 2),
    ],
  };
}

/** One statement, so that a process that names the index finds one at any time. Others read and write meanwhile. */
function makeIdKey({ parked }: TableNames, definition: SchemaDefinition, { unique }: { unique: boolean }): string[] {
  const columns = mysqlTables(definition).parked.keys[ID_KEY] as readonly string[];
  const key = keySql(unique ? `!${ID_KEY}` : ID_KEY, columns);
  return when(
    idKeyThere(definition, 'parked', ` and s.non_unique = ${unique ? 1 : 0}`),
    `alter table ${parked} drop key ${quoteWith('`', ID_KEY)}, add ${key}, algorithm = inplace, lock = none`,
  );
}

/** Neither server can say "if it is not there" of a constraint in the words of the other. */
const when = (condition: string, change: string): string[] => runText(condition, textLiteral(change));

/**
 * By SELECT, which reads without locks: in a SET a read locks all rows that it looks at, unless the session is READ COMMITTED.
 * @param text SQL whose value is the statement
 */
function runText(condition: string, text: string): string[] {
  return [
    `select if(${condition}, ${text}, 'do 0') into @outbox_change`,
    'prepare outbox_change from @outbox_change',
    'execute outbox_change',
    'deallocate prepare outbox_change',
  ];
}

/** Whether a backslash in a quoted text is one depends on the session's `sql_mode`. */
function textLiteral(text: string): string {
  if (!text.includes('\\')) return `'${text.replaceAll(`'`, `''`)}'`;
  return `convert(x'${Buffer.from(text, 'utf8').toString('hex')}' using utf8mb4)`;
}

export const databaseOf = ({ schema }: SchemaDefinition): string =>
  schema === undefined ? 'database()' : textLiteral(schema);

function limitsThere(table: string, definition: SchemaDefinition): string {
  const { prefix } = definition;
  return `exists (select 1 from information_schema.table_constraints c where c.constraint_schema = ${databaseOf(definition)}
  and c.table_name = '${prefix}${table}' and c.constraint_name = '${prefix}${table}_${LIMITS}')`;
}

/** The servers copy a table to add a check, and nobody writes into it meanwhile: one of more rows, or bytes, goes without. */
const COPIED = { rows: 1_000, bytes: 16_777_216 };

/** Whether a copy takes no longer than others may wait. */
const isSmall = (table: string): string =>
  `(select count(*) <= ${COPIED.rows} and coalesce(sum(octet_length(r.payload)), 0) <= ${COPIED.bytes} from (select payload from ${table} limit ${COPIED.rows + 1}) r)`;

/**
 * Of tables that were made with as many buckets: with others every row would be in a wrong one. What is in a bucket that
 * nobody reads is looked for without locks, and changed in its own place in the index: others have the rows around it.
 */
function addLimits(names: TableNames, table: (typeof LIMITED)[number], definition: SchemaDefinition): string[] {
  const { buckets } = definition;
  const target = names[table];
  const same = `(select value from ${names.meta} where name = 'buckets') = '${buckets}'`;
  const missing = `${same} and not ${limitsThere(table, definition)}`;
  const bucket = bucketSql('coalesce(`key`, id)', definition);
  const transports = `(select group_concat(distinct transport) from ${target})`;
  return [
    ...runText(
      `${missing} and exists (select 1 from ${target} where not (${inRange(buckets)}))`,
      `concat(${textLiteral(`update ${target} set bucket = ${bucket} where transport in (`)}, ${transports}, ') and (bucket < 0 or bucket >= ${buckets})')`,
    ),
    'commit', // of a migrator's transaction: the change of the table does so too
    ...when(`${missing} and ${isSmall(target)}`, `alter table ${target} ${limitsSql(names, table, buckets)}`),
  ];
}

export const limitsSql = (names: TableNames, table: (typeof LIMITED)[number], buckets: number): string =>
  `add constraint ${names.index(`${table}_${LIMITS}`)} check (${inRange(buckets)})`;

/** Both know "constraint" for what MySQL calls a check. */
function dropLimits(names: TableNames, table: (typeof LIMITED)[number], definition: SchemaDefinition): string[] {
  return when(
    limitsThere(table, definition),
    `alter table ${names[table]} drop constraint ${names.index(`${table}_${LIMITS}`)}`,
  );
}

/** Of the parked table and of the dedup keys. */
const ID_KEY = 'by_id';
function idKeyThere(definition: SchemaDefinition, table: 'dedup' | 'parked', more = ''): string {
  return `exists (select 1 from information_schema.statistics s where s.table_schema = ${databaseOf(definition)}
  and s.table_name = '${definition.prefix}${table}' and s.index_name = '${ID_KEY}'${more})`;
}

/** The key by which `cancel` finds a message's dedup key. Others read and write meanwhile. */
function addIdKey({ dedup }: TableNames, definition: SchemaDefinition): string[] {
  const columns = mysqlTables(definition).dedup.keys[ID_KEY] as readonly string[];
  return when(
    `not ${idKeyThere(definition, 'dedup')}`,
    `alter table ${dedup} add ${keySql(ID_KEY, columns)}, algorithm = inplace, lock = none`,
  );
}

function dropIdKey({ dedup }: TableNames, definition: SchemaDefinition): string[] {
  return when(idKeyThere(definition, 'dedup'), `alter table ${dedup} drop key ${quoteWith('`', ID_KEY)}`);
}

function idleEpochThere(definition: SchemaDefinition): string {
  return `exists (select 1 from information_schema.columns c where c.table_schema = ${databaseOf(definition)}
  and c.table_name = '${definition.prefix}leases' and c.column_name = '${IDLE_EPOCH[0]}')`;
}

function addIdleEpoch({ leases }: TableNames, definition: SchemaDefinition): string[] {
  return when(`not ${idleEpochThere(definition)}`, `alter table ${leases} add column ${columnSql(IDLE_EPOCH)}`);
}

function dropIdleEpoch({ leases }: TableNames, definition: SchemaDefinition): string[] {
  return when(idleEpochThere(definition), `alter table ${leases} drop column ${quoteWith('`', IDLE_EPOCH[0])}`);
}

/** Drops the messages too. */
export function mysqlSchemaDown(definition: SchemaDefinition): string[] {
  const names = tableNames(definition, '`');
  return [
    `drop view if exists ${names.messages}`,
    `drop table if exists ${names.keyLocks}`, // an outbox may have been strict once
    ...TABLE_NAMES.map((table) => `drop table if exists ${names[table]}`),
    `drop table if exists ${names.object(ASIDE)}`,
  ];
}

/** With a collation of its own: literals have that of whoever made the view, which others could not compare with theirs. */
function text(expression: string): string {
  return `cast(${expression} as char character set utf8mb4) collate utf8mb4_bin`;
}

/** What the view shows. */
export const VIEW_COLUMNS: readonly string[] = (
  'state, transport, bucket, seq, id, topic, key, type, version, content_type, headers, options, payload, created_at, ' +
  'attempts, due_at, last_error, published_at, last_attempt_at, errors'
).split(', ');

/** The one outbox that people expect to select from. Foreign writers insert into the ready table itself. */
function messagesView(names: TableNames): string {
  const columns = `transport, bucket, seq, id, topic, ${text('`key`')} as \`key\`, type, version, content_type, headers, options, payload, created_at`;
  const none = 'cast(null as datetime(6))';
  return `create or replace sql security invoker view ${names.messages} as
select ${text("'ready'")} as state, ${columns}, 0 as attempts, ${none} as due_at, cast(null as char character set utf8mb4) as last_error, ${none} as published_at, ${none} as last_attempt_at, cast(null as char character set utf8mb4) as errors
from ${names.ready}
union all
select ${text("elt(state, 'scheduled', 'waiting', 'blocked', 'dead')")}, ${columns}, attempts, due_at, last_error, ${none}, attempted_at, errors
from ${names.parked}
union all
select ${text("'published'")}, ${columns}, attempts, ${none}, null, published_at, published_at, null
from ${names.archive}`;
}
