import { TABLE_NAMES, literal, type TableNames } from '../../names.js';
import type { ServerFacts } from '../../diagnose/diagnose-store.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';

const SETTINGS = [
  ...['autovacuum', 'default_transaction_read_only', 'fsync', 'full_page_writes', 'synchronous_commit', 'track_counts'],
  ...['server_encoding', 'max_connections', 'superuser_reserved_connections'],
];

/** As a session of this login begins with them: what was said for its role and its database is in it. */
const settingsSelect = `select json_object_agg(s.name, s.reset_val)::text
  from pg_catalog.pg_settings s where s.name in (${SETTINGS.map(literal).join(', ')})`;

/** Of the server, the database and the login the one that is nearest to its limit. */
const CONNECTIONS = `(select json_build_array(l.used, l.most)::text from (
    select count(*) used, current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int most
      from pg_catalog.pg_stat_activity where backend_type = 'client backend'
    union all select count(a.pid), d.datconnlimit from pg_catalog.pg_database d
      left join pg_catalog.pg_stat_activity a on a.datid = d.oid and a.backend_type = 'client backend'
      where d.datname = current_database() and d.datconnlimit >= 0 group by d.oid, d.datconnlimit
    union all select count(a.pid), r.rolconnlimit from pg_catalog.pg_roles r
      left join pg_catalog.pg_stat_activity a on a.usesysid = r.oid and a.backend_type = 'client backend'
      where r.rolname = current_user and r.rolconnlimit >= 0 group by r.oid, r.rolconnlimit) l
  order by l.used::float8 / greatest(l.most, 1) desc limit 1)`;

export function serverStatement(names: TableNames): Statement {
  const tables = TABLE_NAMES.map((table) => `(${literal(names[table])})`).join(', ');
  return statement(
    undefined,
    `select current_setting('server_version'), current_user, pg_is_in_recovery(), (${settingsSelect}),
       ${CONNECTIONS},
       (select string_agg(distinct n.nspname, ', ') from (values ${tables}) t(name) join pg_catalog.pg_class c on c.oid = to_regclass(t.name)
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace where has_schema_privilege('public', n.oid, 'create')),
       (select string_agg(t.name, ', ') from (values ${tables}) t(name) where to_regclass(t.name) is not null
         and row_security_active(to_regclass(t.name)))`,
  );
}

export function readServer(
  [version, login, replica, settings, connections, open, hidden]: readonly unknown[],
  numbers: ServerFacts['numbers'],
): ServerFacts {
  const all = JSON.parse(String(settings)) as Record<string, string>;
  const [used, most] = JSON.parse(String(connections)) as [number, number];
  const isSaid = all['default_transaction_read_only'] === 'on';
  return {
    product: 'PostgreSQL',
    version: String(version),
    login: String(login),
    readOnly: replica === 't' ? 'pg_is_in_recovery' : isSaid ? 'default_transaction_read_only' : null,
    settings: all,
    connections: { used, most },
    openSchemas: listed(open),
    hiddenTables: listed(hidden),
    numbers,
  };
}

const listed = (list: unknown): string[] => (list === null ? [] : String(list).split(', '));

/** A sentence with its remedy in parentheses, as the check of the schema gives it. */
export function numbersOf([problem]: readonly string[]): ServerFacts['numbers'] {
  if (problem === undefined) return null;
  const run = problem.lastIndexOf(' (run: ');
  return { problem: problem.slice(0, run), fix: problem.slice(run + ' (run: '.length, -1) };
}
