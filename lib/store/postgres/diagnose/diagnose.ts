import type { PlanFacts } from '../../diagnose/diagnose-store.js';
import type { SqlConnection, SqlDatabase } from '../../executor.js';
import { TABLE_NAMES, literal, type StoreSettings, type TableNames } from '../../names.js';
import { averageBytes, readDestinations, readGrowth, readTables, type Questions } from '../../sql/diagnose.js';
import { rowsOf } from '../statement.js';
import { compareSequence } from '../schema/check-objects.js';
import { serverWarnings } from '../schema/server.js';
import { heldSnapshot } from './held-snapshot.js';
import { planQuestions, readPlan } from './plans.js';
import { missingRights } from './rights.js';
import { numbersOf, readServer, serverStatement } from './server.js';

const HIGHEST = 2n ** 63n - 1n;
const OPEN =
  'select count(*) from pg_catalog.pg_stat_activity where backend_xid is not null and datname = current_database()';
/** Milliseconds that sizes wait for locks: of VACUUM FULL, of a migration. */
const SIZES_WAIT = 300;

/** What the doctor asks PostgreSQL. */
export function postgresQuestions(database: SqlDatabase, names: TableNames, settings: StoreSettings): Questions {
  const db = (): SqlConnection => database.connection('admin');
  const ms = (time: string): string => `extract(epoch from ${time})::float8 * 1000`;
  const session = async (connection: SqlConnection): Promise<unknown> =>
    (await rowsOf(connection, 'select pg_catalog.pg_backend_pid()'))[0]?.[0];
  return {
    clock: async () => Number((await rowsOf(db(), `select ${ms('clock_timestamp()')}`))[0]?.[0]),
    server: async () => {
      const [row = []] = (await db().run(serverStatement(names).bind())).rows;
      return readServer(row, numbersOf(await compareSequence(db(), names)));
    },
    warnings: () => serverWarnings(db(), names),
    tables: () =>
      db().transaction(async (tx) => {
        await rowsOf(tx, `set local lock_timeout = ${SIZES_WAIT}`);
        return readTables(await rowsOf(tx, tablesOf(names)));
      }),
    plans: async () => {
      const plans: PlanFacts[] = [];
      for (const question of planQuestions(names, settings)) {
        const { rows } = await database.connection('read').run(question.sql);
        plans.push(readPlan(rows[0]?.[0], question, settings.prefix));
      }
      return plans;
    },
    relayRights: () => missingRights(db(), names, 'relay'),
    enqueueRights: () => missingRights(db(), names, 'enqueue'),
    growth: async () => readGrowth(await rowsOf(db(), growthOf(names, settings.buckets, ms)), HIGHEST),
    destinations: () => readDestinations(db(), names),
    heldSnapshot: () => heldSnapshot(db(), names),
    openTransactions: async () => Number((await rowsOf(db(), OPEN))[0]?.[0]),
    /** A pooler in transaction mode gives both of two idle connections the session that was used last. */
    pooler: async () => {
      const one = await session(db());
      const other = await session(database.connection('lease'));
      return { isPooled: database.isPooled?.() === true, sharesSessions: one === other };
    },
  };
}

function tablesOf(names: TableNames): string {
  const list = TABLE_NAMES.map((table) => `(${literal(table)}, ${literal(names[table])})`).join(', ');
  return `select t.kind, t.name, s.bytes, s.live, case when current_setting('track_counts') = 'on' then s.dead end,
      (select to_char(max(v.at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        from (values (pg_catalog.pg_stat_get_last_vacuum_time(c.oid)), (pg_catalog.pg_stat_get_last_autovacuum_time(c.oid))) v(at)),
      (not exists (select from unnest(c.reloptions) o where o in ('autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0')))::int
    from (values ${list}) t(kind, name) join pg_catalog.pg_class c on c.oid = to_regclass(t.name)
      cross join lateral (select sum(pg_catalog.pg_total_relation_size(p.id)) as bytes, sum(pg_catalog.pg_stat_get_live_tuples(p.id)) as live,
          sum(pg_catalog.pg_stat_get_dead_tuples(p.id)) as dead
        from (select c.oid as id union all select i.inhrelid from pg_catalog.pg_inherits i where i.inhparent = c.oid) p) s`;
}

function growthOf(names: TableNames, buckets: number, ms: (time: string) => string): string {
  const { ready, archive, transports } = names;
  const hour = `now() - interval '1 hour'`;
  const recent = `select seq, created_at
    from (select o.seq, o.created_at from ${archive} o where o.published_at > ${hour} order by o.published_at limit 1) x where created_at > ${hour}`;
  const heads = `select f.seq, f.created_at from ${transports} t cross join generate_series(0, ${buckets - 1}) b(n)
    cross join lateral (select o.seq, o.created_at from ${ready} o where o.transport = t.id and o.bucket = b.n order by o.seq limit 1) f
    where f.created_at > ${hour}`;
  return `select coalesce(pg_sequence_last_value(to_regclass(${literal(names.object('ready_seq_seq'))})), 0), ${ms('clock_timestamp()')},
      e.seq, ${ms('e.created_at')}, ${averageBytes(names, (column) => `pg_catalog.pg_column_size(${column})`, 'key')}
    from (select 1) one left join (select * from ((${heads}) union all (${recent})) x order by created_at, seq limit 1) e on true`;
}
