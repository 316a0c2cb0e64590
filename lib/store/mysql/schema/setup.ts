import { OutboxConfigurationError } from '../../../outbox.errors.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { SchemaSettings, StoreSetup } from '../../outbox-store.js';
import { ADDS_ONLY, checkMade, isAsWanted, make, mendBy, RUN_MIGRATIONS } from '../../schema/is-as-wanted.js';
import { oneAtATime } from './lock.js';
import { mysqlSchemaUp } from './schema.js';
import { metaRows, type StoreSettings, type TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { compareSchema } from './compare-schema.js';
import { jsonRows, jsonTable } from '../json-rows.js';
import { errnoOf, inTransaction, retried } from '../../retry.js';
import { MysqlServer, ONE_WRITER } from './server.js';
import { sized, times } from '../statements.js';

const NO_SUCH_TABLE = 1146;
const NO_SUCH_DATABASE = 1049;
const NO_SUCH_COLUMN = 1054;
/** On the table, on a column. */
const NO_RIGHT: readonly unknown[] = [1142, 1143];

/** Creates, compares and registers; runs at start. */
export class MysqlSetup implements StoreSetup {
  private readonly sql: ReturnType<typeof setupStatements>;

  constructor(
    readonly database: SqlDatabase,
    readonly server: MysqlServer,
    readonly settings: StoreSettings,
    readonly names: TableNames,
  ) {
    this.sql = setupStatements(names);
  }

  /**
   * Nothing is run where nothing is missing: a view is replaced only once every transaction that read it has ended.
   * Tables of other settings are refused before anything is made. Settings that are not written yet are no others: somebody
   * died making these tables.
   */
  async create(settings: SchemaSettings): Promise<void> {
    if (await isAsWanted(this.check(settings))) return;
    await make(this.up(settings), isOfColumn, () => this.check(settings, ADDS_ONLY));
  }

  /** Several processes may start at once: the first makes the tables, the others wait and find them. */
  private async up(settings: SchemaSettings): Promise<void> {
    await this.server.check(settings.ordering, () => this.hasOneWriter());
    const tables = { schema: this.settings.schema, prefix: this.settings.prefix };
    // One session, which holds the lock. Its transaction ends with the first table.
    await this.database.connection('admin').transaction(async (tx) => {
      const ask = async (sql: string, values: readonly unknown[]): Promise<unknown> =>
        (await tx.run(statement(undefined, sql).bind(...values))).rows[0]?.[0];
      await oneAtATime(ask, tables, async () => {
        const written = (await this.readMeta(tx).catch(unlessMissing)) ?? [];
        checkMeta(new Map([...metaRows(settings), ...written]), settings, this.names.meta);
        if (await isAsWanted(this.compare(settings, RUN_MIGRATIONS, tx))) return;
        for (const text of mysqlSchemaUp({ ...tables, ...settings })) await tx.run(statement(undefined, text).bind());
      });
    });
  }

  async check(settings: SchemaSettings, way = RUN_MIGRATIONS): Promise<void> {
    await this.server.check(settings.ordering, () => this.hasOneWriter());
    await this.compare(settings, way, this.database.connection('admin'));
  }

  private async compare(settings: SchemaSettings, way: string, db: SqlExecutor): Promise<void> {
    checkMeta(await this.readMeta(db), settings, this.names.meta);
    const { schema, prefix } = this.settings;
    const wrong = await compareSchema(db, { schema, prefix, ...settings });
    if (wrong.length === 0) return;
    throw new OutboxConfigurationError(
      'SCHEMA_MISMATCH',
      `The outbox tables are not as they should be: ${wrong.join('; ')}.`,
      { hint: mendBy(way) },
    );
  }

  warnings(): Promise<string[]> {
    return this.server.warnings();
  }

  /** The meta row is the lock that lets one instance at a time give out numbers. */
  async registerTransports(names: readonly string[], defaultName: string): Promise<ReadonlyMap<string, number>> {
    const admin = this.database.connection('admin');
    const there = await this.readTransports(admin);
    // Without the lock, which takes the right to change the row: a process that only enqueues may not have it.
    if (names.every((name) => there.has(name))) {
      const ids = new Map(names.map((name) => [name, there.get(name) as number]));
      for (const id of ids.values()) await this.restoreLeases(id);
      return ids;
    }
    return inTransaction(admin, async (tx) => {
      await tx.run(this.sql.lock.bind());
      const known = await this.readTransports(tx);
      const unknown = names.filter((name) => !known.has(name));
      if (known.size === 0) unknown.sort((a, b) => Number(b === defaultName) - Number(a === defaultName));
      let next = known.size === 0 && !names.includes(defaultName) ? 1 : Math.max(-1, ...known.values()) + 1;
      for (const name of unknown) known.set(name, next++);
      for (const name of unknown) await tx.run(this.sql.add.bind(known.get(name), Buffer.from(name, 'utf8')));
      for (const name of unknown) await this.addLeases(tx, known.get(name) as number);
      return new Map(names.map((name) => [name, known.get(name) as number]));
    });
  }

  transports(): Promise<ReadonlyMap<string, number>> {
    return this.readTransports(this.database.connection('admin'));
  }

  private async readTransports(executor: SqlExecutor): Promise<Map<string, number>> {
    const { rows } = await executor.run(this.sql.transports.bind());
    return new Map(rows.map(([id, name]) => [(name as Buffer).toString('utf8'), Number(id)]));
  }

  private async addLeases(tx: Parameters<Parameters<typeof inTransaction>[1]>[0], transport: number): Promise<void> {
    const count = Number((await tx.run(this.sql.countLeases.bind(transport))).rows[0]?.[0]);
    if (count >= this.settings.buckets) return;
    const rows = Array.from({ length: this.settings.buckets }, (_, bucket) => [transport, bucket]).flat();
    await tx.run(this.sql.addLeases(this.settings.buckets).bind(...rows));
  }

  /**
   * A script that empties tables takes lease rows with it, and nobody publishes a bucket without one. Its epoch is above
   * every one before; it is free once each instance that is alive now has renewed, and so knows that it lost its own.
   */
  private async restoreLeases(transport: number): Promise<void> {
    const admin = this.database.connection('admin');
    const rows = Array.from({ length: this.settings.buckets }, (_, bucket) => [transport, bucket]);
    try {
      const count = Number((await admin.run(this.sql.countLeases.bind(transport))).rows[0]?.[0]);
      if (count >= this.settings.buckets) return;
      await retried(() => admin.run(this.sql.restoreLeases.bind(jsonRows(rows))));
    } catch (error) {
      if (!NO_RIGHT.includes(errnoOf(error))) throw error; // who only enqueues: a relay's start does it
    }
  }

  /** Said by an operator; tables that are not there yet say nothing. */
  private async hasOneWriter(): Promise<boolean> {
    const meta = await this.readMeta().catch(() => undefined);
    return meta?.get(ONE_WRITER) === 'yes';
  }

  private async readMeta(db: SqlExecutor = this.database.connection('admin')): Promise<Map<string, string>> {
    try {
      const { rows } = await db.run(this.sql.meta.bind());
      return new Map(rows.map(([name, value]) => [String(name), String(value)]));
    } catch (error) {
      const { errno } = error as { errno?: number };
      if (errno !== NO_SUCH_TABLE && errno !== NO_SUCH_DATABASE) throw error;
      throw new OutboxConfigurationError('SCHEMA_MISSING', `There is no table ${this.names.meta}.`, {
        hint: RUN_MIGRATIONS,
        cause: error,
      });
    }
  }
}

const isOfColumn = (error: unknown): boolean => (error as { errno?: number }).errno === NO_SUCH_COLUMN;

function unlessMissing(error: unknown): undefined {
  if (!(error instanceof OutboxConfigurationError)) throw error;
}

/** Of other tables nothing else is worth comparing. What a strict order needs can be added; the rest stands in the tables' defaults. */
function checkMeta(stored: ReadonlyMap<string, string>, settings: SchemaSettings, meta: string): void {
  checkMade(stored, settings, meta, (different) =>
    different.join() === 'ordering' && settings.ordering === 'strict' && stored.get('ordering') === 'key'
      ? `drain the outbox, stop every process that enqueues or publishes, run the up of outboxSql() with the new settings (it may run again), and run: update ${meta} set value = 'strict' where name = 'ordering'`
      : undefined,
  );
}

function setupStatements({ meta, transports, leases, instances }: TableNames) {
  return {
    meta: statement('meta', `select name, value from ${meta} where name not like 'flush:%'`),
    lock: statement('lock meta', `select value from ${meta} where name = 'version' for update`),
    transports: statement('transports', `select id, name from ${transports}`),
    add: statement('add transport', `insert into ${transports} (id, name) values (?, ?)`),
    countLeases: statement('count leases', `select count(*) from ${leases} where transport = ?`),
    restoreLeases: statement(
      'restore leases',
      `insert into ${leases} (transport, bucket, epoch, expires_at)
      select k.t, k.b, unix_timestamp(current_timestamp()), coalesce((select max(i.expires_at) from ${instances} i
        where i.expires_at > utc_timestamp(6)), '1970-01-01 00:00:00')
      from ${jsonTable({ t: 'smallint', b: 'smallint' })} where true on duplicate key update transport = transport`,
    ),
    addLeases: sized(
      (n) => `insert into ${leases} (transport, bucket) values ${times(n, '(?, ?)', ', ')}
      on duplicate key update transport = transport`,
    ),
  };
}
