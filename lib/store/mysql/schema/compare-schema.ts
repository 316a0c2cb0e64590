import { counted } from '../../../observe/plural.js';
import type { SqlExecutor } from '../../executor.js';
import { readLayout } from '../partitions/layout.js';
import { inPartitions } from './archive.js';
import { checkSql, columnSql, keySql, TABLE_OPTIONS } from './create-table.js';
import { UP_AGAIN } from './schema.js';
import { mysqlTables, type MysqlColumn, type MysqlTable } from './tables.js';
import { KEY_LOCK_TABLE, KEY_LOCKS } from './strict.js';
import { quoteWith, tableNames, TABLE_NAMES, type SchemaDefinition } from '../../names.js';
import { rowsOf } from '../../rows-of.js';
import { statement } from '../../sql.js';
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
/** None of MySQL before 8.0.16, which takes a check and does not keep it. */
const CONSTRAINTS = statement(
  'constraints',
  `select table_name, constraint_name from information_schema.table_constraints
  where constraint_schema = ${SCHEMA} and (false /*!80016 or true */ /*M! or true */)`,
);

const ASCII_BIN = 'ascii_bin';

/** What of the tables differs from what this version would create; empty when nothing does. */
export async function compareSchema(connection: SqlExecutor, definition: SchemaDefinition): Promise<string[]> {
  const schema = definition.schema ?? null;
  const [tables, columns, keys, constraints] = await Promise.all(
    [TABLES, COLUMNS, KEYS, CONSTRAINTS].map(async (s) => (await connection.run(s.bind(schema))).rows),
  );
  const tablesOf = mysqlTables(definition);
  const names = tableNames(definition, '`');
  const layout = await readLayout(connection, names, definition);
  const wanted: [string, string, MysqlTable][] = TABLE_NAMES.map((name) => [
    definition.prefix + name,
    names[name],
    name === 'archive' && layout.kind === 'partitioned' ? inPartitions(tablesOf.archive) : tablesOf[name],
  ]);
  const strict = definition.ordering === 'strict';
  if (strict) wanted.push([`${definition.prefix}key_locks`, names.keyLocks, KEY_LOCK_TABLE]);
  const wrong = wanted.flatMap(([table, name, columnsAndKeys]) => {
    const of = (rows: typeof tables): (readonly unknown[])[] => (rows ?? []).filter(([owner]) => owner === table);
    const [found] = of(tables);
    if (found === undefined) return [`${table} is missing ${UP_AGAIN}`];
    const drifts = [
      ...compareTable(table, found),
      ...compareColumns(table, columnsAndKeys, of(columns)),
      ...compareKeys(table, columnsAndKeys, of(keys)),
      ...missingChecks(table, columnsAndKeys, of(constraints)),
    ];
    return drifts.map(([what, change]) => `${what} (run: alter table ${name} ${oneLine(change)})`);
  });
  if (strict && wrong.length === 0) wrong.push(...(await missingLocks(connection, definition)));
  return [...wrong, ...layout.problems, ...(await compareView(connection, definition))];
}

async function missingLocks(connection: SqlExecutor, definition: SchemaDefinition): Promise<string[]> {
  const { keyLocks } = tableNames(definition, '`');
  const rows = await rowsOf(connection, `select count(*) from ${keyLocks}`);
  const count = Number(rows[0]?.[0]);
  return count === KEY_LOCKS ? [] : [`${keyLocks} has ${counted(count, 'row')}, not ${KEY_LOCKS} ${UP_AGAIN}`];
}

/** What is wrong of a table, and what an `alter table` has to say to mend it. */
type Drift = readonly [what: string, change: string];

function compareTable(table: string, [, engine, collation]: readonly unknown[]): Drift[] {
  const wrong: string[] = [];
  if (String(engine).toLowerCase() !== 'innodb') wrong.push(`${table} has engine ${String(engine)}, not InnoDB`);
  if (collation !== 'utf8mb4_bin') wrong.push(`${table} has collation ${String(collation)}, not utf8mb4_bin`);
  return wrong.map((what) => [what, TABLE_OPTIONS]);
}

function compareColumns(table: string, wanted: MysqlTable, found: readonly (readonly unknown[])[]): Drift[] {
  const there = new Map(found.map(([, name, ...rest]) => [String(name), rest]));
  const wrong = wanted.columns.flatMap((column): Drift[] => {
    const was = there.get(column[0]);
    const what = compareColumn(column, was);
    return what === undefined
      ? []
      : [[`${table}.${column[0]} ${what}`, `${was === undefined ? 'add' : 'modify'} ${columnSql(column)}`]];
  });
  return [...wrong, ...foreignColumns(table, wanted, there)];
}

function compareColumn([, type, definition]: MysqlColumn, found: readonly unknown[] = []): string | undefined {
  const [foundType, nullable, text, extra, collation] = found;
  if (foundType === undefined) return 'is missing';
  if (plainType(foundType) !== type) return `is ${String(foundType)}, not ${type}`;
  if ((nullable === 'NO') !== definition.includes('not null')) return `${nullable === 'NO' ? 'refuses' : 'takes'} null`;
  const other = compareDefault(definition, text as string | null, String(extra));
  if (other !== undefined) return other;
  const wantedCollation = definition.includes(ASCII_BIN) ? ASCII_BIN : 'utf8mb4_bin';
  // Without one: bytes, numbers, times.
  return collation === null || collation === wantedCollation
    ? undefined
    : `has collation ${String(collation)}, not ${wantedCollation}`;
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
function foreignColumns(table: string, wanted: MysqlTable, there: ReadonlyMap<string, readonly unknown[]>): Drift[] {
  const ours = new Set(wanted.columns.map(([name]) => name));
  return [...there].flatMap(([name, [, nullable, text, extra]]) => {
    const filled = nullable === 'YES' || text !== null || /auto_increment|generated/i.test(String(extra));
    const change = `modify ${quoteWith('`', name)} ${String(there.get(name)?.[0])} null`;
    return ours.has(name) || filled
      ? []
      : [[`${table}.${name} is not ours, and refuses null without a default`, change]];
  });
}

function compareKeys(table: string, wanted: MysqlTable, found: readonly (readonly unknown[])[]): Drift[] {
  const there = new Map<string, { unique: boolean; columns: string[] }>();
  for (const [, index, nonUnique, column] of found) {
    const name = String(index).toLowerCase();
    const key = there.get(name) ?? { unique: Number(nonUnique) === 0, columns: [] };
    key.columns.push(String(column));
    there.set(name, key);
  }
  return Object.entries(wanted.keys).flatMap(([name, columns]): Drift[] => {
    const unique = name === 'primary' || name.startsWith('!');
    const key = there.get(name.replace('!', ''));
    if (key === undefined || key.unique !== unique || key.columns.join() !== columns.join()) {
      const drop = name === 'primary' ? 'drop primary key, ' : `drop key ${quoteWith('`', name.replace('!', ''))}, `;
      const change = `${key === undefined ? '' : drop}add ${keySql(name, columns)}`;
      const kind = unique ? 'unique key' : key?.unique === true ? 'key that is not unique' : 'key';
      return [[`${table} has no ${kind} on (${columns.join(', ')})`, change]];
    }
    return [];
  });
}

/** Each table has a primary key: who is told of no constraint, as one who only inserts, may not see them. */
function missingChecks(table: string, { checks = {} }: MysqlTable, found: readonly (readonly unknown[])[]): Drift[] {
  const there = new Set(found.map(([, name]) => String(name)));
  return Object.entries(checks)
    .filter(([name]) => there.size > 0 && !there.has(name))
    .map(([name, condition]) => [`${table} has no constraint ${name}`, `add ${checkSql(name, condition)}`]);
}

/** MariaDB prints the display width of integers, MySQL 8 does not. */
const plainType = (type: unknown): string =>
  String(type)
    .toLowerCase()
    .replace(/\b(smallint|tinyint|bigint|int)\(\d+\)/, '$1');
