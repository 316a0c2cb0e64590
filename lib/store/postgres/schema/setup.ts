import { OutboxConfigurationError } from '../../../outbox.errors.js';
import type { SqlConnection, SqlExecutor } from '../../executor.js';
import type { SchemaSettings, StoreSetup } from '../../outbox-store.js';
import { ADDS_ONLY, isAsWanted, make, RUN_MIGRATIONS } from '../../schema/is-as-wanted.js';
import { literal, TABLE_NAMES, type StoreSettings, type TableNames } from '../../names.js';
import { checkOrigin } from './origin.js';
import { oneAtATime, postgresSchema } from './schema.js';
import { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { plainArray } from '../arrays.js';
import { checkMeta, checkSchema } from './check.js';

/** 64-bit transaction ids (`xid8`) and `pg_current_snapshot()`. */
const OLDEST_SERVER = 130_000;
const NO_SUCH_COLUMN = '42703';
const NO_RIGHT = '42501';
const WARNINGS: Readonly<Record<string, string>> = {
  fsync: 'fsync is off: a crash of the server loses committed messages. Set it to on for the server.',
  full_page_writes:
    'full_page_writes is off: a crash of the server can damage the tables. Set it to on for the server.',
  synchronous_commit:
    'synchronous_commit is off for new sessions: a crash of the server loses the last commits, with their messages. None of those was published: the relay waits for the disk. To keep them, set it to on for the server, the database or the role.',
  create:
    'Everybody may create objects in the schema of the outbox, and so put functions in front of those that your own SQL calls. Run: revoke create on schema … from public.',
  rows: 'Row security hides rows of the outbox from this user: they are neither published nor counted. Give the user the attribute bypassrls, or disable row security for the tables of the outbox.',
  replica:
    'The database is a read-only replica: nothing can be published from it. Point the DataSource, or the master of its replication option, at the primary.',
};

export class PostgresSetup implements StoreSetup {
  constructor(
    readonly connection: () => SqlConnection,
    /** Where nobody waits for a lock of operators and the cleaner: the first read waits for what is asked here. */
    readonly reading: () => SqlConnection,
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {}

  /**
   * Serialised by an advisory lock: several processes may start at once. Nothing is run where nothing is missing: `create
   * index if not exists` waits for every open transaction that wrote into the table, and everybody else waits behind it.
   * Tables of other settings are refused before anything changes: their functions would be replaced.
   */
  async create(settings: SchemaSettings): Promise<void> {
    if (await isAsWanted(this.check(settings))) return;
    await this.checkServer();
    await make(this.up(settings), isOfColumn, () => this.check(settings, ADDS_ONLY));
  }

  /** @internal */ async up(settings: SchemaSettings): Promise<void> {
    const { up } = postgresSchema({ ...this.settings, ...settings });
    await this.connection().transaction(async (tx) => {
      await tx.run(statement(undefined, oneAtATime(this.settings)).bind());
      if (await this.hasMeta(tx)) await checkMeta(tx, this.names, settings);
      for (const text of up) await tx.run(new Statement(undefined, text).bind());
    });
  }

  async check(settings: SchemaSettings, way = RUN_MIGRATIONS): Promise<void> {
    await this.checkServer();
    await checkSchema(this.connection(), this.names, this.settings, settings, way);
  }

  /** @internal */ async hasMeta(db: SqlExecutor): Promise<boolean> {
    const { rows } = await db.run(statement(undefined, `select to_regclass(${literal(this.names.meta)})`).bind());
    return rows[0]?.[0] !== null;
  }

  /** @internal */ async checkServer(): Promise<void> {
    const sql = `select current_setting('server_version_num'), current_setting('server_version'),
      pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', current_setting('server_encoding')`;
    const [row] = (await this.connection().run(statement(undefined, sql).bind())).rows;
    const [number, version, replica, readOnly, encoding] = row ?? [];
    if (!(Number(number) >= OLDEST_SERVER)) {
      throw unsuitable(`The database is PostgreSQL ${String(version)}.`, 'The outbox needs PostgreSQL 13 or later.');
    }
    if (replica === 't') {
      throw unsuitable(
        'The database is a read-only replica (pg_is_in_recovery).',
        'Point the DataSource, or the master of its replication option, at the primary.',
      );
    }
    if (readOnly === 't') {
      throw unsuitable(
        'Transactions are read-only here (default_transaction_read_only is on).',
        'Find out who set it for the server, the database or the role, and why: some hosts do so when the disk is full.',
      );
    }
    // Another one has no place for every key and error text; SQL_ASCII takes bytes that are no text, which come back as others.
    if (encoding !== 'UTF8') {
      throw unsuitable(
        `The database keeps its texts in ${String(encoding)}, not in UTF8 (server_encoding).`,
        `Dump it, and restore it into one made with: create database … template template0 encoding 'UTF8'.`,
      );
    }
  }

  checkOrigin(): Promise<void> {
    return checkOrigin(this.reading(), this.names);
  }

  async registerTransports(names: readonly string[], defaultName: string): Promise<ReadonlyMap<string, number>> {
    const known = await this.readTransports(this.connection());
    if (names.every((name) => known.has(name))) {
      await this.restoreLeases(names.map((name) => known.get(name) as number));
      return pick(known, names);
    }
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

  /**
   * A script that empties tables takes lease rows with it, and nobody publishes a bucket without one. Its epoch is above
   * every one before; it is free once each instance that is alive now has renewed, and so knows that it lost its own.
   * @internal
   */
  async restoreLeases(transports: readonly number[]): Promise<void> {
    const { leases, instances } = this.names;
    const { buckets } = this.settings;
    const numbers = plainArray(transports);
    const count = statement(undefined, `select count(*) from ${leases} where transport = any(?::smallint[])`);
    const insert = statement(
      undefined,
      `insert into ${leases} (transport, bucket, epoch, expires_at)
       select t, b, extract(epoch from clock_timestamp())::bigint,
         coalesce((select max(expires_at) from ${instances} where expires_at > clock_timestamp()), '-infinity')
       from unnest(?::smallint[]) t cross join generate_series(0, ?::int - 1) b on conflict do nothing`,
    );
    try {
      const [row] = (await this.connection().run(count.bind(numbers))).rows;
      if (Number(row?.[0]) >= buckets * transports.length) return;
      await this.connection().run(insert.bind(numbers, buckets));
    } catch (error) {
      if ((error as { code?: unknown }).code !== NO_RIGHT) throw error; // who only enqueues: a relay's start does it
    }
  }

  transports(): Promise<ReadonlyMap<string, number>> {
    return this.readTransports(this.connection());
  }

  /** @internal */ async readTransports(executor: SqlExecutor): Promise<Map<string, number>> {
    const { rows } = await executor.run(statement(undefined, `select name, id from ${this.names.transports}`).bind());
    return new Map(rows.map(([name, id]) => [name as string, Number(id)]));
  }

  async warnings(): Promise<string[]> {
    const tables = TABLE_NAMES.map((table) => `(${literal(this.names[table])})`).join(', ');
    const { rows } = await this.connection().run(
      statement(
        undefined,
        `select name from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') and reset_val = 'off'
         union all select 'replica' where pg_is_in_recovery()
         union all select 'create' from (values (${literal(this.names.ready)})) t(name) join pg_class c on c.oid = to_regclass(t.name)
           where has_schema_privilege('public', c.relnamespace, 'create')
         union all (select 'rows' from (values ${tables}) t(name) where row_security_active(to_regclass(t.name)) limit 1)`,
      ).bind(),
    );
    return rows.map(([name]) => WARNINGS[name as string] as string);
  }
}

function unsuitable(message: string, hint: string): OutboxConfigurationError {
  return new OutboxConfigurationError('UNSUPPORTED_DATABASE', message, { hint });
}

function pick(all: ReadonlyMap<string, number>, names: readonly string[]): ReadonlyMap<string, number> {
  return new Map(names.map((name) => [name, all.get(name) as number]));
}

const isOfColumn = (error: unknown): boolean => (error as { code?: unknown }).code === NO_SUCH_COLUMN;
