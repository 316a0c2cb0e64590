import type { RightFacts } from '../../diagnose/diagnose-store.js';
import type { SqlExecutor } from '../../executor.js';
import { TABLE_NAMES, literal, quoteWith, type TableName, type TableNames } from '../../names.js';
import { rowsOf } from '../statement.js';

type Wanted = readonly [object: string, right: string, how: 'table' | 'column' | 'sequence'];

/** Of a table, or of enough of its columns that the server lets the statement through. */
function wantedOf(names: TableNames, work: 'relay' | 'enqueue'): Wanted[] {
  const numbers = ['ready_seq_seq', 'parked_parked_id_seq'].map((name): Wanted => [
    names.object(name),
    'usage',
    'sequence',
  ]);
  const of = (how: Wanted[2], rights: readonly string[], tables: readonly TableName[]): Wanted[] =>
    tables.flatMap((table) => rights.map((right): Wanted => [names[table], right, how]));
  if (work === 'relay') return [...of('table', ['select', 'insert', 'update', 'delete'], TABLE_NAMES), ...numbers];
  return [
    ...of('table', ['select'], ['meta', 'transports', 'leases', 'instances', 'pauses']),
    ...of('column', ['insert', 'select'], ['ready', 'parked']),
    ...of('column', ['insert', 'select', 'update'], ['dedup']),
    ...numbers,
  ];
}

/** Those of whole tables are wanted of a login that is no owner; what is not there is no missing right. */
export async function missingRights(
  db: SqlExecutor,
  names: TableNames,
  work: 'relay' | 'enqueue',
): Promise<RightFacts> {
  const wanted = wantedOf(names, work);
  const list = wanted.map((each) => `(${each.map(literal).join(', ')})`).join(', ');
  const rows = await rowsOf(
    db,
    `select current_user, w.right_ || ' on ' || case when w.how = 'sequence' then 'sequence ' else '' end || w.name
       from (values ${list}) w(name, right_, how) where to_regclass(w.name) is not null and not case w.how
         when 'table' then pg_catalog.has_table_privilege(to_regclass(w.name), w.right_)
         when 'column' then pg_catalog.has_any_column_privilege(to_regclass(w.name), w.right_)
         else case when (select c.relkind from pg_catalog.pg_class c where c.oid = to_regclass(w.name)) = 'S'
           then pg_catalog.has_sequence_privilege(to_regclass(w.name), w.right_) end end`,
  );
  const login = rows[0]?.[0] ?? (await rowsOf(db, 'select current_user'))[0]?.[0];
  return {
    login: String(login),
    grantee: quoteWith('"', String(login)),
    missing: rows.map(([, right]) => String(right)),
  };
}
