import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { SqlExecutor } from '../executors/executor.js';
import type { SchemaSettings } from '../outbox-store.js';
import {
  HASH_VERSION,
  literal,
  SCHEMA_VERSION,
  TABLE_NAMES,
  type StoreSettings,
  type TableName,
  type TableNames,
} from '../schema/names.js';
import { postgresTables, STAGED, type Column, type Table } from '../schema/postgres-tables.js';
import { statement } from '../sql.js';

const RUN_MIGRATIONS =
  'Add outboxMigrations() of nestjs-outbox/typeorm to the migrations of your DataSource and run them, or set database.setup to "create" in development.';

/** Compares what is there with what this version needs; the first difference is thrown as one error that lists all of its kind. */
export async function checkSchema(
  db: SqlExecutor,
  names: TableNames,
  store: StoreSettings,
  wanted: SchemaSettings,
): Promise<void> {
  const found = await readColumns(db, names);
  const missing = TABLE_NAMES.filter((table) => !found.has(table));
  if (missing.length > 0) {
    const list = missing.map((table) => names[table]).join(', ');
    throw new OutboxConfigurationError('SCHEMA_MISSING', `Tables are missing: ${list}.`, { hint: RUN_MIGRATIONS });
  }
  await checkMeta(db, names, wanted);
  const strict = wanted.ordering === 'strict';
  checkColumns(found, names, strict);
  await checkObjects(db, names, store, strict);
}

interface FoundColumn {
  readonly type: string;
  readonly notNull: boolean;
  readonly filled: boolean;
  readonly collation: string | null;
}
/** Tables that every outbox has, and the one of a strict order. */
type AnyTable = TableName | 'staged';
type Found = Map<AnyTable, { columns: Map<string, FoundColumn>; key: string }>;

async function readColumns(db: SqlExecutor, names: TableNames): Promise<Found> {
  const wanted = [...TABLE_NAMES, 'staged' as const]
    .map((table) => `(${literal(table)}, to_regclass(${literal(names[table])}))`)
    .join(', ');
  const { rows } = await db.run(
    statement(
      undefined,
      `select w.name, a.attname, format_type(a.atttypid, a.atttypmod),
         a.attnotnull, a.atthasdef or a.attidentity <> '', (select l.collname from pg_collation l where l.oid = a.attcollation),
         coalesce((select string_agg(k.attname, ', ' order by u.n) from pg_index i cross join unnest(i.indkey) with ordinality u(attnum, n)
           join pg_attribute k on k.attrelid = i.indrelid and k.attnum = u.attnum where i.indrelid = c.oid and i.indisprimary), '')
       from (values ${wanted}) w(name, id) join pg_class c on c.oid = w.id
       join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped`,
    ).bind(),
  );
  const found: Found = new Map();
  for (const [table, column, type, notNull, filled, collation, key] of rows as readonly ColumnRow[]) {
    const entry = found.get(table) ?? { columns: new Map<string, FoundColumn>(), key };
    entry.columns.set(column, { type, notNull: notNull === 't', filled: filled === 't', collation });
    found.set(table, entry);
  }
  return found;
}

type ColumnRow = readonly [AnyTable, string, string, string, string, string | null, string];

async function checkMeta(db: SqlExecutor, names: TableNames, wanted: SchemaSettings): Promise<void> {
  const { rows } = await db.run(statement(undefined, `select name, value from ${names.meta}`).bind());
  const stored = new Map(rows as readonly (readonly [string, string])[]);
  const version = stored.get('version');
  if (version !== String(SCHEMA_VERSION)) {
    throw new OutboxConfigurationError(
      'SCHEMA_MISMATCH',
      `The tables have version ${version ?? 'unknown'}, this release needs ${SCHEMA_VERSION}.`,
      { hint: RUN_MIGRATIONS },
    );
  }
  const settings = { ...wanted, hash: HASH_VERSION };
  const different = SETTING_NAMES.filter((name) => stored.get(name) !== String(settings[name]));
  if (different.length === 0) return;
  const problems = different.map(
    (name) => `${name} is ${settings[name]} in the options and ${stored.get(name) ?? 'unknown'}`,
  );
  throw new OutboxConfigurationError('SCHEMA_MISMATCH', `${problems.join(', ')} in ${names.meta}.`, {
    hint: hintFor(different, settings, stored, names),
  });
}

const SETTING_NAMES = ['buckets', 'hash', 'ordering', 'coordination'] as const;
type SettingName = (typeof SETTING_NAMES)[number];

/** One way out for all of them: what is fixed with the tables decides. */
function hintFor(
  different: readonly SettingName[],
  settings: Readonly<Record<SettingName, unknown>>,
  stored: ReadonlyMap<string, string>,
  names: TableNames,
): string {
  const fixed = different.filter((name) => name === 'buckets' || name === 'hash');
  if (fixed.length > 0) {
    const what = fixed.length === 1 ? `${fixed[0]} is` : `${fixed.join(' and ')} are`;
    return `All processes must agree, and ${what} fixed when the tables are made: use the stored values, or move to new tables under another prefix.`;
  }
  const updates = different.map(
    (name) => `update ${names.meta} set value = '${String(settings[name])}' where name = '${name}'`,
  );
  const stop = different.includes('ordering')
    ? `${drain(settings.ordering, stored)}, stop every process that enqueues or publishes, run the up of outboxSql() with the new settings (it may run again)`
    : 'stop every relay, let it drain';
  return `All processes must agree: use the stored values, or ${stop}, and run: ${updates.join('; ')}.`;
}

/** With a global order every message has bucket 0, with others its key's: what is left would stay where nobody looks for it. */
function drain(ordering: unknown, stored: ReadonlyMap<string, string>): string {
  const moves = [ordering, stored.get('ordering')].includes('global');
  return moves
    ? 'let the relays drain until no message is left, dead and scheduled ones included'
    : 'let the relays drain';
}

function checkColumns(found: Found, names: TableNames, strict: boolean): void {
  const tables = postgresTables(`''`);
  const expected: (readonly [AnyTable, Table])[] = TABLE_NAMES.map((table) => [table, tables[table]]);
  if (strict) expected.push(['staged', STAGED]);
  const wrong: string[] = [];
  for (const [table, { columns, key }] of expected) {
    const actual = found.get(table);
    for (const column of columns) {
      const problem = compareColumn(column, key.includes(column[0]), actual?.columns.get(column[0]));
      if (problem !== undefined) wrong.push(`${names[table]}.${column[0]} ${problem}`);
    }
    for (const [name, { notNull, filled }] of actual?.columns ?? []) {
      if (notNull && !filled && !columns.some(([own]) => own === name)) {
        wrong.push(`${names[table]}.${name} is not ours, and refuses null without a default`);
      }
    }
    if (actual?.key !== key.join(', ')) {
      wrong.push(`the key of ${names[table]} is (${actual?.key ?? ''}), not (${key.join(', ')})`);
    }
  }
  if (wrong.length > 0) throw mismatch(wrong);
}

/** @returns what is wrong with it, in words */
function compareColumn([, type, rest]: Column, inKey: boolean, found: FoundColumn | undefined): string | undefined {
  if (found?.type !== type) return `is ${found?.type ?? 'missing'}, not ${type}`;
  const notNull = inKey || /not null|identity/.test(rest);
  if (found.notNull !== notNull) return notNull ? 'takes null' : 'refuses null';
  if (/default|identity/.test(rest) && !found.filled) return 'has no default';
  // Keys are compared and sorted by their bytes, whatever the database's language.
  return rest.includes('collate "C"') && found.collation !== 'C' ? 'is not collated "C"' : undefined;
}

/** What the statements rely on beside the columns: indexes, numbers in the order of the inserts, the view and its trigger. */
async function checkObjects(db: SqlExecutor, names: TableNames, store: StoreSettings, strict: boolean): Promise<void> {
  const views = `(${literal(names.messages)})`;
  const sequence = names.object('ready_seq_seq');
  const { rows } = await db.run(
    statement(
      undefined,
      `select w.name || ' is missing' from (values ${views}) w(name) where to_regclass(w.name) is null
       union all select 'the insert trigger of ' || ${literal(names.messages)} || ' is missing' where not exists (select from pg_trigger t
         where t.tgrelid = to_regclass(${literal(names.messages)}) and t.tgname = ${literal(`${store.prefix}messages_insert`)})
       union all select 'the deferred trigger of ' || ${literal(names.staged)} || ' is missing' where ${strict} and not exists (select from pg_trigger t
         where t.tgrelid = to_regclass(${literal(names.staged)}) and t.tgname = ${literal(`${store.prefix}staged_move`)}
           and t.tgdeferrable and t.tginitdeferred and t.tgenabled = 'A')
       union all select format('the sequence %s has increment %s, cache %s%s, so its numbers are not in the order of the inserts (run: alter sequence %s increment 1 cache 1 no cycle)',
           ${literal(sequence)}, s.seqincrement, s.seqcache, case when s.seqcycle then ', cycle' else '' end, ${literal(sequence)})
         from pg_sequence s where s.seqrelid = to_regclass(${literal(sequence)}) and (s.seqincrement, s.seqcache, s.seqcycle) <> (1, 1, false)`,
    ).bind(),
  );
  const wrong = [...(await compareIndexes(db, names)), ...rows.map(([problem]) => String(problem))];
  if (wrong.length > 0) throw mismatch(wrong);
}

/** By name, columns and condition; one whose concurrent creation failed is there, and used by nobody. */
async function compareIndexes(db: SqlExecutor, names: TableNames): Promise<string[]> {
  const wanted = Object.values(postgresTables(`''`)).flatMap((table) => Object.entries(table.indexes ?? {}));
  const list = wanted.map(([suffix]) => `(${literal(suffix)}, ${literal(names.object(suffix))})`).join(', ');
  const { rows } = await db.run(
    statement(
      undefined,
      `select w.suffix, i.indisvalid, i.indpred is not null, (select string_agg(k.attname, ', ' order by u.n)
         from unnest(i.indkey) with ordinality u(attnum, n) join pg_attribute k on k.attrelid = i.indrelid and k.attnum = u.attnum)
       from (values ${list}) w(suffix, name) join pg_index i on i.indexrelid = to_regclass(w.name)`,
    ).bind(),
  );
  const found = new Map(rows.map(([suffix, ...rest]) => [suffix as string, rest]));
  return wanted.flatMap(([suffix, definition]) => {
    const name = names.object(suffix);
    const [valid, partial, columns] = found.get(suffix) ?? [];
    if (valid === undefined) return [`${name} is missing`];
    if (valid !== 't') return [`${name} is not valid (run: reindex index ${name})`];
    const asWanted =
      definition.startsWith(`(${String(columns)})`) && definition.includes(' where ') === (partial === 't');
    return asWanted ? [] : [`${name} is on (${String(columns)}), not ${definition}`];
  });
}

function mismatch(wrong: readonly string[]): OutboxConfigurationError {
  return new OutboxConfigurationError(
    'SCHEMA_MISMATCH',
    `The tables are not what this release needs: ${wrong.join('; ')}.`,
    {
      hint: RUN_MIGRATIONS,
    },
  );
}
