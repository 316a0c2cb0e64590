import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { SqlConnection, SqlExecutor } from '../executors/executor.js';
import type { SchemaSettings, StoreSetup } from '../outbox-store.js';
import type { StoreSettings, TableNames } from '../schema/names.js';
import { literal, postgresSchema } from '../schema/postgres-schema.js';
import { statement } from '../sql.js';
import { plainArray } from './arrays.js';
import { checkSchema } from './check.js';

/** 64-bit transaction ids (`xid8`) and `pg_current_snapshot()`. */
const OLDEST_SERVER = 130_000;
const WARNINGS: Readonly<Record<string, string>> = {
  fsync: 'fsync is off: a crash of the server loses committed messages.',
  full_page_writes: 'full_page_writes is off: a crash of the server can damage the tables.',
};

export class PostgresSetup implements StoreSetup {
  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {}

  /** Serialised by an advisory lock: several processes may start at once. */
  async create(settings: SchemaSettings): Promise<void> {
    await this.checkServer();
    const { up } = postgresSchema({ ...this.settings, ...settings });
    await this.connection().transaction(async (tx) => {
      const lock = `select pg_advisory_xact_lock(hashtext(${literal(this.names.meta)}))`;
      for (const text of [lock, ...up]) await tx.run(statement(undefined, text).bind());
    });
  }

  async check(settings: SchemaSettings): Promise<void> {
    await this.checkServer();
    await checkSchema(this.connection(), this.names, this.settings, settings);
  }

  /** @internal */ async checkServer(): Promise<void> {
    const sql = `select current_setting('server_version_num')::int >= ${OLDEST_SERVER}, current_setting('server_version')`;
    const [row] = (await this.connection().run(statement(undefined, sql).bind())).rows;
    if (row?.[0] === 't') return;
    throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', `The database is PostgreSQL ${String(row?.[1])}.`, {
      hint: 'The outbox needs PostgreSQL 13 or later.',
    });
  }

  async registerTransports(names: readonly string[], defaultName: string): Promise<ReadonlyMap<string, number>> {
    const known = await this.readTransports(this.connection());
    if (names.every((name) => known.has(name))) return pick(known, names);
    return this.connection().transaction(async (tx) => {
      await tx.run(statement(undefined, `lock table ${this.names.transports} in share row exclusive mode`).bind());
      const registered = await this.readTransports(tx);
      const fresh = names.filter((name) => !registered.has(name));
      fresh.sort((a, b) => Number(b === defaultName) - Number(a === defaultName));
      let next = Math.max(0, ...[...registered.values()].map((id) => id + 1));
      if (registered.size === 0 && !fresh.includes(defaultName)) next = 1; // 0 is what plain SQL writers mean
      for (const name of fresh) registered.set(name, next++);
      await this.addTransports(tx, fresh, registered);
      return pick(registered, names);
    });
  }

  /** @internal */ async addTransports(
    tx: SqlExecutor,
    fresh: readonly string[],
    ids: ReadonlyMap<string, number>,
  ): Promise<void> {
    const insert = statement(undefined, `insert into ${this.names.transports} (id, name) values (?, ?)`);
    for (const name of fresh) await tx.run(insert.bind(ids.get(name), name));
    const numbers = plainArray(fresh.map((name) => ids.get(name) as number));
    await tx.run(
      statement(
        undefined,
        `insert into ${this.names.leases} (transport, bucket)
         select t, b from unnest(?::smallint[]) t cross join generate_series(0, ?::int - 1) b on conflict do nothing`,
      ).bind(numbers, this.settings.buckets),
    );
  }

  /** @internal */ async readTransports(executor: SqlExecutor): Promise<Map<string, number>> {
    const { rows } = await executor.run(statement(undefined, `select name, id from ${this.names.transports}`).bind());
    return new Map(rows.map(([name, id]) => [name as string, Number(id)]));
  }

  async warnings(): Promise<string[]> {
    const { rows } = await this.connection().run(
      statement(
        undefined,
        `select name, setting from pg_settings where name in ('fsync', 'full_page_writes') and setting = 'off'
         union all select 'replica', 'on' where pg_is_in_recovery()
         union all select 'cache', s.seqcache::text from pg_sequence s
           where s.seqrelid = ${literal(this.names.object('ready_seq_seq'))}::regclass and s.seqcache <> 1`,
      ).bind(),
    );
    return rows.map(([name]) => {
      if (name === 'replica') return 'The database is a read-only replica: nothing can be published from it.';
      if (name === 'cache') {
        return `The sequence of ${this.names.ready} has a cache: numbers are not in the order of the inserts. Run: alter sequence ${this.names.object('ready_seq_seq')} cache 1.`;
      }
      return WARNINGS[name as string] as string;
    });
  }
}

function pick(all: ReadonlyMap<string, number>, names: readonly string[]): ReadonlyMap<string, number> {
  return new Map(names.map((name) => [name, all.get(name) as number]));
}
