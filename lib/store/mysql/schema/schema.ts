import { ASIDE } from '../partitions/layout.js';
import { createPartitioned } from './archive.js';
import { createTable } from './create-table.js';
import { fillKeyLocks, KEY_LOCK_TABLE } from './strict.js';
import { mysqlTables } from './tables.js';
import { metaRows, TABLE_NAMES, tableNames, type SchemaDefinition, type TableNames } from '../../names.js';

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
  ];
}

/** Makes what is missing, and the view anew; changes no table that is there. */
export const UP_AGAIN = '(run the up of outboxSql() again)';

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
