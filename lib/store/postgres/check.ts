import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { SqlExecutor } from '../executors/executor.js';
import type { SchemaSettings } from '../outbox-store.js';
import {
  HASH_VERSION,
  SCHEMA_VERSION,
  TABLE_NAMES,
  type StoreSettings,
  type TableName,
  type TableNames,
} from '../schema/names.js';
import { literal } from '../schema/postgres-schema.js';
import { postgresTables } from '../schema/postgres-tables.js';
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
  checkColumns(found, names);
  await checkObjects(db, names, store);
}

type Found = Map<TableName, { columns: Map<string, string>; key: string }>;

async function readColumns(db: SqlExecutor, names: TableNames): Promise<Found> {
  const wanted = TABLE_NAMES.map((table) => `(${literal(table)}, to_regclass(${literal(names[table])}))`).join(', ');
  const { rows } = await db.run(
    statement(
      undefined,
      `select w.name, a.attname, format_type(a.atttypid, a.atttypmod),
         coalesce((select string_agg(k.attname, ', ' order by u.n) from pg_index i cross join unnest(i.indkey) with ordinality u(attnum, n)
           join pg_attribute k on k.attrelid = i.indrelid and k.attnum = u.attnum where i.indrelid = c.oid and i.indisprimary), '')
       from (values ${wanted}) w(name, id) join pg_class c on c.oid = w.id
       join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped`,
    ).bind(),
  );
  const found: Found = new Map();
  for (const [table, column, type, key] of rows as readonly (readonly [TableName, string, string, string])[]) {
    const entry = found.get(table) ?? { columns: new Map<string, string>(), key };
    entry.columns.set(column, type);
    found.set(table, entry);
  }
  return found;
}

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
    hint: hintFor(different, settings, names),
  });
}

const SETTING_NAMES = ['buckets', 'hash', 'ordering', 'coordination'] as const;
type SettingName = (typeof SETTING_NAMES)[number];

/** One way out for all of them: what is fixed with the tables decides. */
function hintFor(
  different: readonly SettingName[],
  settings: Readonly<Record<SettingName, unknown>>,
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
  return `All processes must agree: use the stored values, or stop every relay, let it drain, and run: ${updates.join('; ')}.`;
}

function checkColumns(found: Found, names: TableNames): void {
  const expected = postgresTables(`''`);
  const wrong: string[] = [];
  for (const table of TABLE_NAMES) {
    const actual = found.get(table);
    for (const [column, type] of expected[table].columns) {
      const is = actual?.columns.get(column);
      if (is !== type) wrong.push(`${names[table]}.${column} is ${is ?? 'missing'}, not ${type}`);
    }
    const key = expected[table].key.join(', ');
    if (actual?.key !== key) wrong.push(`the key of ${names[table]} is (${actual?.key ?? ''}), not (${key})`);
  }
  if (wrong.length > 0) throw mismatch(wrong);
}

/** What the statements rely on beside the columns: indexes, the view and its trigger. */
async function checkObjects(db: SqlExecutor, names: TableNames, store: StoreSettings): Promise<void> {
  const indexes = Object.values(postgresTables(`''`)).flatMap((table) => Object.keys(table.indexes ?? {}));
  const wanted = [...indexes.map((suffix) => names.object(suffix)), names.messages];
  const list = wanted.map((name) => `(${literal(name)})`).join(', ');
  const { rows } = await db.run(
    statement(
      undefined,
      `select w.name from (values ${list}) w(name) where to_regclass(w.name) is null
       union all select 'the insert trigger of ' || ${literal(names.messages)} where not exists (select from pg_trigger t
         where t.tgrelid = to_regclass(${literal(names.messages)}) and t.tgname = ${literal(`${store.prefix}messages_insert`)})`,
    ).bind(),
  );
  if (rows.length > 0) throw mismatch(rows.map(([name]) => `${String(name)} is missing`));
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
