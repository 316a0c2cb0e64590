import type { SqlExecutor } from '../../executor.js';
import { literal, TABLE_NAMES, type SchemaDefinition, type TableNames } from '../../names.js';
import { postgresTables } from './tables.js';
import { VIEW_COLUMNS } from './view.js';
import { readLayout } from '../partitions/layout.js';
import { AGAIN, compareFunctions } from './check-functions.js';
import { compareLimits } from './check-limits.js';
import { rowsOf } from '../statement.js';

/** What the statements rely on beside the columns. @returns what differs, in words */
export async function compareObjects(
  db: SqlExecutor,
  names: TableNames,
  definition: SchemaDefinition,
): Promise<string[]> {
  return [
    ...(await compareIndexes(db, names)),
    ...(await compareUniques(db, names)),
    ...(await compareView(db, names)),
    ...(await compareLimits(db, names, definition)),
    ...(await compareFunctions(db, names, definition)),
    ...(await compareTriggers(db, names, definition)),
    ...(await readLayout(db, names, definition.prefix)).problems,
  ];
}

/** By name, columns and condition; one whose concurrent creation failed is there, and used by nobody. */
async function compareIndexes(db: SqlExecutor, names: TableNames): Promise<string[]> {
  const wanted = Object.values(postgresTables(`''`)).flatMap((table) => Object.entries(table.indexes ?? {}));
  const list = wanted.map(([suffix]) => `(${literal(suffix)}, ${literal(names.object(suffix))})`).join(', ');
  const rows = await rowsOf(
    db,
    `select w.suffix, i.indisvalid, i.indpred is not null, (select string_agg(k.attname, ', ' order by u.n)
         from unnest(i.indkey) with ordinality u(attnum, n) join pg_attribute k on k.attrelid = i.indrelid and k.attnum = u.attnum)
       from (values ${list}) w(suffix, name) join pg_index i on i.indexrelid = to_regclass(w.name)`,
  );
  const found = new Map(rows.map(([suffix, ...rest]) => [suffix as string, rest]));
  return wanted.flatMap(([suffix, definition]) => {
    const name = names.object(suffix);
    const [valid, partial, columns] = found.get(suffix) ?? [];
    if (valid === undefined) return [`${name} is missing ${AGAIN}`];
    if (valid !== 't') return [`${name} is not valid (run: reindex index ${name})`];
    const asWanted =
      definition.startsWith(`(${String(columns)})`) && definition.includes(' where ') === (partial === 't');
    return asWanted
      ? []
      : [
          `${name} is on (${String(columns)}), not ${definition} (run: drop index ${name}, and the up of outboxSql() again)`,
        ];
  });
}

/** By their columns, whatever their names; one that is partial, deferrable or failed keeps nothing apart when it must. */
async function compareUniques(db: SqlExecutor, names: TableNames): Promise<string[]> {
  const tables = postgresTables(`''`);
  const wanted = TABLE_NAMES.flatMap((table) =>
    (tables[table].constraints ?? []).map((text) => [table, text] as const),
  );
  const list = wanted.map(([table]) => `(${literal(table)}, ${literal(names[table])})`).join(', ');
  const rows = await rowsOf(
    db,
    `select w.name, string_agg(k.attname, ', ' order by u.n) from (values ${list}) w(name, id)
       join pg_index i on i.indrelid = to_regclass(w.id) and i.indisunique and i.indisvalid and i.indimmediate
         and i.indpred is null and i.indexprs is null
       cross join unnest(i.indkey) with ordinality u(attnum, n)
       join pg_attribute k on k.attrelid = i.indrelid and k.attnum = u.attnum and u.n <= i.indnkeyatts
       group by w.name, i.indexrelid`,
  );
  const found = new Set(rows.map(([table, columns]) => `${String(table)} unique (${String(columns)})`));
  return wanted.flatMap(([table, text]) =>
    found.has(`${table} ${text}`)
      ? []
      : [`${names[table]} has no ${text} (run: alter table ${names[table]} add ${text})`],
  );
}

/** Its columns; servers print a view's query each in a way of its own. */
async function compareView(db: SqlExecutor, { messages }: TableNames): Promise<string[]> {
  const rows = await rowsOf(
    db,
    `select a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a
       where a.attrelid = to_regclass(${literal(messages)}) and a.attnum > 0 and not a.attisdropped`,
  );
  if (rows.length === 0) return [`${messages} is missing ${AGAIN}`];
  const found = new Map(rows.map(([name, type]) => [name as string, type as string]));
  return Object.entries(VIEW_COLUMNS).flatMap(([name, type]) =>
    found.get(name) === type
      ? []
      : [
          `${messages}.${name} is ${found.get(name) ?? 'missing'}, not ${type} (run: drop view ${messages}, and the up of outboxSql() again)`,
        ],
  );
}

/** `tgtype`: 1 for each row, 4 on insert, 64 instead of it. */
async function compareTriggers(db: SqlExecutor, names: TableNames, definition: SchemaDefinition): Promise<string[]> {
  const trigger = (table: string, suffix: string, more: string): string =>
    `not exists (select from pg_trigger t where t.tgrelid = to_regclass(${literal(table)}) and t.tgname = ${literal(definition.prefix + suffix)}
       and t.tgfoid = to_regprocedure(${literal(`${names.object(suffix)}()`)}) and ${more})`;
  const problem = (which: string, table: string, step = AGAIN): string =>
    literal(`the ${which} trigger of ${table} is missing, disabled or another one ${step}`);
  // The script leaves one of this name as it is: what is staged while there is none would stay there.
  const made = `(run: drop trigger if exists ${names.index('staged_move')} on ${names.staged}, and the up of outboxSql() again)`;
  const rows = await rowsOf(
    db,
    `select ${problem('insert', names.messages)} where ${trigger(names.messages, 'messages_insert', `t.tgtype = 69 and t.tgenabled in ('O', 'A')`)}
       union all select ${problem('deferred', names.staged, made)} where ${definition.ordering === 'strict'}
         and ${trigger(names.staged, 'staged_move', `t.tgtype = 5 and t.tgdeferrable and t.tginitdeferred and t.tgenabled = 'A'`)}
       union all select format('%s has a second insert trigger, %I: every insert through it makes two rows (run: drop trigger %I on %s)',
           ${literal(names.messages)}, t.tgname, t.tgname, ${literal(names.messages)})
         from pg_trigger t where t.tgrelid = to_regclass(${literal(names.messages)}) and t.tgtype & 68 = 68
           and t.tgname <> ${literal(`${definition.prefix}messages_insert`)} and t.tgenabled <> 'D'`,
  );
  return rows.map(([text]) => String(text));
}

/** Numbers are in the order of the inserts only where one sequence gives them out one by one. */
export async function compareSequence(db: SqlExecutor, names: TableNames): Promise<string[]> {
  const sequence = literal(names.object('ready_seq_seq'));
  const rows = await rowsOf(
    db,
    `select format('the sequence %s has increment %s, cache %s%s, so its numbers are not in the order of the inserts (run: alter sequence %s increment 1 cache 1 no cycle)',
         ${sequence}, s.seqincrement, s.seqcache, case when s.seqcycle then ', cycle' else '' end, ${sequence})
       from pg_sequence s where s.seqrelid = to_regclass(${sequence}) and (s.seqincrement, s.seqcache, s.seqcycle) <> (1, 1, false)
       union all select format('%s.seq does not take its numbers from the sequence %s (run: alter sequence %s rename to %s)', ${literal(names.ready)}, ${sequence},
         coalesce((select d.objid::regclass from pg_depend d join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
           where d.classid = 'pg_class'::regclass and d.refobjid = to_regclass(${literal(names.ready)}) and d.deptype = 'i' and a.attname = 'seq')::text, 'its own'),
         ${literal(names.index('ready_seq_seq'))})
       where not exists (select from pg_depend d join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
         where d.classid = 'pg_class'::regclass and d.objid = to_regclass(${sequence}) and d.refclassid = 'pg_class'::regclass
           and d.refobjid = to_regclass(${literal(names.ready)}) and d.deptype = 'i' and a.attname = 'seq')`,
  );
  return rows.map(([text]) => String(text));
}
