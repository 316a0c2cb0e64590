import {
  ROW_OVERHEAD,
  ROW_SAMPLE,
  type BacklogDestination,
  type DiagnoseStore,
  type GrowthFacts,
  type PlanFacts,
  type PoolerFacts,
  type RightFacts,
  type ServerFacts,
  type SnapshotFacts,
  type TableFacts,
} from '../../diagnose/diagnose-store.js';
import type { SqlConnection, SqlDatabase } from '../../executor.js';
import { TABLE_NAMES, literal, type StoreSettings, type TableNames } from '../../names.js';
import { PostgresHeldSnapshot } from '../ops/held-snapshot.js';
import { readDate } from '../inspect/rows.js';
import { compareSequence } from '../schema/check-objects.js';
import { statement } from '../statement.js';
import { planQuestions, readPlan } from './plans.js';
import { missingRights } from './rights.js';
import { numbersOf, readServer, serverStatement } from './server.js';

type Row = readonly unknown[];
const HIGHEST = String(2n ** 63n - 1n);

/** What the doctor asks PostgreSQL. */
export class PostgresDiagnose implements DiagnoseStore {
  constructor(
    readonly database: SqlDatabase,
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {}

  async clock(): Promise<number> {
    const [row] = await this.ask('select extract(epoch from clock_timestamp())::float8');
    return Number(row?.[0]) * 1_000;
  }

  async server(): Promise<ServerFacts> {
    const [row = []] = (await this.connection.run(serverStatement(this.names).bind())).rows;
    return readServer(row, numbersOf(await compareSequence(this.connection, this.names)));
  }

  async tables(): Promise<TableFacts[]> {
    const list = TABLE_NAMES.map((table) => `(${literal(table)}, ${literal(this.names[table])})`).join(', ');
    // A size waits for locks: of VACUUM FULL, of a migration.
    const rows = await this.askWithin(
      SIZES_WAIT,
      `select t.kind, t.name, s.bytes, s.live, s.dead,
         current_setting('track_counts') = 'on', (select to_char(max(v.at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
           from (values (pg_catalog.pg_stat_get_last_vacuum_time(c.oid)), (pg_catalog.pg_stat_get_last_autovacuum_time(c.oid))) v(at)),
         not exists (select from unnest(c.reloptions) o where o in ('autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0'))
       from (values ${list}) t(kind, name) join pg_catalog.pg_class c on c.oid = to_regclass(t.name)
         cross join lateral (select sum(pg_catalog.pg_total_relation_size(p.id)) as bytes, sum(pg_catalog.pg_stat_get_live_tuples(p.id)) as live,
             sum(pg_catalog.pg_stat_get_dead_tuples(p.id)) as dead
           from (select c.oid as id union all select i.inhrelid from pg_catalog.pg_inherits i where i.inhparent = c.oid) p) s`,
    );
    return rows.map(([table, name, bytes, live, dead, counted, vacuumed, isVacuumedBySelf]) => ({
      table: String(table),
      name: String(name),
      bytes: Number(bytes),
      liveRows: Number(live),
      deadRows: counted === 't' ? Number(dead) : null,
      lastVacuum: readDate(vacuumed),
      isVacuumedBySelf: isVacuumedBySelf === 't',
    }));
  }

  async plans(): Promise<PlanFacts[]> {
    const plans: PlanFacts[] = [];
    for (const question of planQuestions(this.names, this.settings)) {
      const { rows } = await this.database.connection('read').run(question.sql);
      plans.push(readPlan(rows[0]?.[0], question, this.settings.prefix));
    }
    return plans;
  }

  missingRights(work: 'relay' | 'enqueue'): Promise<RightFacts> {
    return missingRights(this.connection, this.names, work);
  }

  async growth(): Promise<GrowthFacts> {
    const { ready, parked, archive, transports } = this.names;
    const sequence = literal(this.names.object('ready_seq_seq'));
    const recent = (table: string, at: string): string =>
      `select seq, created_at from (select o.seq, o.created_at from ${table} o where o.${at} > now() - interval '1 hour' order by o.${at} limit 1) x
       where created_at > now() - interval '1 hour'`;
    const heads = `select f.seq, f.created_at from ${transports} t cross join generate_series(0, ${this.settings.buckets - 1}) b(n)
      cross join lateral (select o.seq, o.created_at from ${ready} o where o.transport = t.id and o.bucket = b.n order by o.seq limit 1) f
      where f.created_at > now() - interval '1 hour'`;
    const sizes = [ready, parked, archive].map(
      (
        table,
      ) => `(select ${['payload', 'headers', 'topic', 'key', 'type'].map((column) => `coalesce(pg_catalog.pg_column_size(o.${column}), 0)`).join(' + ')} size
        from ${table} o limit ${ROW_SAMPLE})`,
    );
    const [row = []] = await this.ask(
      `select coalesce(pg_sequence_last_value(to_regclass(${sequence})), 0), extract(epoch from clock_timestamp())::float8, e.seq,
         extract(epoch from e.created_at)::float8, (select sum(size) / count(*) from (${sizes.join(' union all ')}) s having count(*) > 0)
       from (select 1) one left join (select * from ((${heads}) union all (${recent(archive, 'published_at')})) x order by created_at, seq limit 1) e on true`,
    );
    const [last, at, seq, since, bytes] = row;
    return {
      last: String(last),
      highest: HIGHEST,
      at: Number(at) * 1_000,
      earlier: isNone(seq) ? null : { seq: String(seq), at: Number(since) * 1_000 },
      rowBytes: isNone(bytes) ? null : Math.round(Number(bytes)) + ROW_OVERHEAD,
    };
  }

  async destinations(): Promise<BacklogDestination[]> {
    const { ready, parked } = this.names;
    const part = (table: string): string =>
      `(select o.transport, o.topic, o.options from ${table} o limit ${ROW_SAMPLE})`;
    const rows = await this.ask(
      `select distinct x.transport, x.topic, x.options from (${part(ready)} union all ${part(parked)}) x limit 200`,
    );
    return rows.map(([transport, topic, options]) => ({
      transport: Number(transport),
      topic: String(topic),
      options: options === null ? null : String(options),
    }));
  }

  async oldestSnapshot(): Promise<SnapshotFacts> {
    const held = await this.heldSnapshot();
    if (held === undefined) return { age: 0, transactions: 0 };
    return { age: held.age ?? null, transactions: held.distance ?? null };
  }

  heldSnapshot(): ReturnType<PostgresHeldSnapshot['look']> {
    return new PostgresHeldSnapshot(() => this.connection, this.names).look();
  }

  /** A pooler in transaction mode gives both of two idle connections the session that was used last. */
  async pooler(): Promise<PoolerFacts> {
    const ask = statement(undefined, 'select pg_catalog.pg_backend_pid()');
    const [one] = (await this.connection.run(ask.bind())).rows;
    const [other] = (await this.database.connection('lease').run(ask.bind())).rows;
    return { isPooled: this.database.isPooled?.() === true, sharesSessions: one?.[0] === other?.[0] };
  }

  private get connection(): SqlConnection {
    return this.database.connection('admin');
  }
  /** @param ms for which it waits for a lock */
  private async askWithin(ms: number, text: string): Promise<readonly Row[]> {
    return this.connection.transaction(async (tx) => {
      await tx.run(statement(undefined, `set local lock_timeout = ${ms}`).bind());
      return (await tx.run(statement(undefined, text).bind())).rows;
    });
  }
  private async ask(text: string): Promise<readonly Row[]> {
    return (await this.connection.run(statement(undefined, text).bind())).rows;
  }
}

/** Milliseconds. */
const SIZES_WAIT = 300;

const isNone = (value: unknown): boolean => value === null || value === undefined;
