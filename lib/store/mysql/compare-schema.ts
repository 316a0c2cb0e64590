import type { SqlConnection } from '../executors/executor.js';
import { mysqlTables, type MysqlTable } from '../schema/mysql-tables.js';
import { KEY_LOCK_TABLE, KEY_LOCKS } from '../schema/mysql-strict.js';
import { tableNames, TABLE_NAMES, type SchemaDefinition } from '../schema/names.js';
import { statement } from '../sql.js';
import { compareView } from './compare-view.js';
import { isSameDefault, oneLine } from './plain-default.js';

const SCHEMA = 'coalesce(?, database())';
const TABLES = statement(
  'tables',
  `select table_name, engine, table_collation from information_schema.tables
  where table_schema = ${SCHEMA} and table_type = 'BASE TABLE'`,
);
const COLUMNS = statement(
  'columns',
  `select table_name, column_name, column_type, is_nullable, column_default, extra, collation_name
  from information_schema.columns where table_schema = ${SCHEMA}`,
);
const KEYS = statement(
  'keys',
  `select table_name, index_name, non_unique, column_name
  from information_schema.statistics where table_schema = ${SCHEMA} order by table_name, index_name, seq_in_index`,
);

const ASCII_BIN = 'ascii_bin';

/** What of the tables differs from what this version would create; empty when nothing does. */
export async function compareSchema(connection: SqlConnection, definition: SchemaDefinition): Promise<string[]> {
  const schema = definition.schema ?? null;
  const [tables, columns, keys] = await Promise.all(
    [TABLES, COLUMNS, KEYS].map(async (s) => (await connection.run(s.bind(schema))).rows),
  );
  const tablesOf = mysqlTables(definition);
  const wanted: [string, MysqlTable][] = TABLE_NAMES.map((name) => [definition.prefix + name, tablesOf[name]]);
  const strict = definition.ordering === 'strict';
  if (strict) wanted.push([`${definition.prefix}key_locks`, KEY_LOCK_TABLE]);
  const wrong = wanted.flatMap(([table, columnsAndKeys]) => {
    const of = (rows: typeof tables): (readonly unknown[])[] => (rows ?? []).filter(([owner]) => owner === table);
    const [found] = of(tables);
    if (found === undefined) return [`${table} is missing`];
    return [
      ...compareTable(table, found),
      ...compareColumns(table, columnsAndKeys, of(columns)),
      ...compareKeys(table, columnsAndKeys, of(keys)),
    ];
  });
  if (strict && wrong.length === 0) wrong.push(...(await missingLocks(connection, definition)));
  return [...wrong, ...(await compareView(connection, definition))];
}

async function missingLocks(connection: SqlConnection, definition: SchemaDefinition): Promise<string[]> {
  const { keyLocks } = tableNames(definition, '`');
  const { rows } = await connection.run(statement(undefined, `select count(*) from ${keyLocks}`).bind());
  const count = Number(rows[0]?.[0]);
  return count === KEY_LOCKS ? [] : [`${keyLocks} has ${count} rows, not ${KEY_LOCKS}`];
}

function compareTable(table: string, [, engine, collation]: readonly unknown[]): string[] {
  const wrong: string[] = [];
  if (String(engine).toLowerCase() !== 'innodb') wrong.push(`${table} has engine ${String(engine)}, not InnoDB`);
  if (collation !== 'utf8mb4_bin') wrong.push(`${table} has collation ${String(collation)}, not utf8mb4_bin`);
  return wrong;
}

function compareColumns(table: string, wanted: MysqlTable, found: readonly (readonly unknown[])[]): string[] {
  const there = new Map(found.map(([, name, ...rest]) => [String(name), rest]));
  const wrong = wanted.columns.flatMap(([name, type, definition]) => {
    const [foundType, nullable, text, extra, collation] = there.get(name) ?? [];
    if (foundType === undefined) return [`${table}.${name} is missing`];
    if (plainType(foundType) !== type) return [`${table}.${name} is ${String(foundType)}, not ${type}`];
    if ((nullable === 'NO') !== definition.includes('not null'))
      return [`${table}.${name} ${nullable === 'NO' ? 'refuses' : 'takes'} null`];
    const other = compareDefault(definition, text as string | null, String(extra));
    if (other !== undefined) return [`${table}.${name} ${other}`];
    const wantedCollation = definition.includes(ASCII_BIN) ? ASCII_BIN : 'utf8mb4_bin';
    // Without one: bytes, numbers, times.
    if (collation !== null && collation !== wantedCollation)
      return [`${table}.${name} has collation ${String(collation)}, not ${wantedCollation}`];
    return [];
  });
  return [...wrong, ...foreignColumns(table, wanted, there)];
}

/** One where we have none is nobody's harm. */
function compareDefault(definition: string, found: string | null, extra: string): string | undefined {
  if (definition.includes('auto_increment')) return /auto_increment/i.test(extra) ? undefined : 'has no default';
  const wanted = /\bdefault (.+?)(?: check \(.*)?$/s.exec(definition)?.[1];
  if (wanted === undefined) return undefined;
  if (found === null) return /default_generated/i.test(extra) ? undefined : 'has no default';
  return isSameDefault(wanted, found) ? undefined : `has default ${oneLine(found)}, not ${oneLine(wanted)}`;
}

/** A column of somebody else's that must be given a value makes every insert fail. */
function foreignColumns(table: string, wanted: MysqlTable, there: ReadonlyMap<string, readonly unknown[]>): string[] {
  const ours = new Set(wanted.columns.map(([name]) => name));
  return [...there].flatMap(([name, [, nullable, text, extra]]) => {
    const filled = nullable === 'YES' || text !== null || /auto_increment|generated/i.test(String(extra));
    return ours.has(name) || filled ? [] : [`${table}.${name} is not ours, and refuses null without a default`];
  });
}

function compareKeys(table: string, wanted: MysqlTable, found: readonly (readonly unknown[])[]): string[] {
  const there = new Map<string, { unique: boolean; columns: string[] }>();
  for (const [, index, nonUnique, column] of found) {
    const name = String(index).toLowerCase();
    const key = there.get(name) ?? { unique: Number(nonUnique) === 0, columns: [] };
    key.columns.push(String(column));
    there.set(name, key);
  }
  return Object.entries(wanted.keys).flatMap(([name, columns]) => {
    const unique = name === 'primary' || name.startsWith('!');
    const key = there.get(name.replace('!', ''));
    if (key === undefined || key.unique !== unique || key.columns.join() !== columns.join()) {
      return [`${table} has no ${unique ? 'unique ' : ''}key on (${columns.join(', ')})`];
    }
    return [];
  });
}

/** MariaDB prints the display width of integers, MySQL 8 does not. */
const plainType = (type: unknown): string =>
  String(type)
    .toLowerCase()
    .replace(/\b(smallint|tinyint|bigint|int)\(\d+\)/, '$1');
