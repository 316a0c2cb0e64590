import { misconfigured, OutboxConfigurationError } from '../../outbox.errors.js';
import type { SqlConnection, SqlDatabase, SqlExecutor } from '../executor.js';
import {
  metaRows,
  TABLE_NAMES,
  type SchemaDefinition,
  type StoreSettings,
  type TableName,
  type TableNames,
} from '../names.js';
import type { SchemaSettings, StoreSetup } from '../outbox-store.js';
import { inTransaction, retried } from '../retry.js';
import { statement, type Sql, type Statement } from '../sql.js';
import { ADDS_ONLY, checkMade, mendBy, RUN_MIGRATIONS } from './check-made.js';

/** How one database makes, compares and registers what the outbox has in it. */
export interface SchemaDialect {
  readonly sql: {
    /** The names of those of our tables that are there, without the prefix. */
    readonly tables: Sql;
    /** The column of a transport's name, as text. */
    readonly transportName: string;
    /** One session at a time gives out numbers. */
    readonly lockTransports: Statement;
    /** Lease rows of a transport, for these buckets. */
    readonly addLeases: Statement;
    readonly restoreLeases: Statement;
  };
  /** All buckets, as a value of these statements. */
  readonly buckets: unknown;
  /** Codes of errors that speak of a column that is not there, or of a right that this login does not have. */
  readonly codes: Readonly<Record<'noColumn' | 'noRight', readonly unknown[]>>;
  /** @throws OutboxConfigurationError when the server, as it is, cannot hold an outbox */
  checkServer(ordering: SchemaSettings['ordering']): Promise<void>;
  /** Runs `work` on one session, while no other process makes these tables. */
  inTurn(work: (session: SqlExecutor) => Promise<void>): Promise<void>;
  /** Everything that the outbox has in the schema, one statement each; may run again. */
  up(definition: SchemaDefinition): readonly string[];
  /** What of the tables, which are all there, is not as `up` makes it: in words, each with what mends it. */
  compare(db: SqlExecutor, definition: SchemaDefinition): Promise<string[]>;
  /** What changes these settings of tables that are there; `undefined`: nothing does. */
  wayOut(different: readonly string[], wanted: SchemaSettings, stored: ReadonlyMap<string, string>): string | undefined;
  checkOrigin?(): Promise<void>;
}

/** Makes the tables, compares them with what this release needs, and gives transports their numbers; runs at start. */
export class SchemaSetup implements StoreSetup {
  private readonly sql: ReturnType<typeof setupStatements>;

  constructor(
    private readonly database: SqlDatabase,
    private readonly names: TableNames,
    private readonly settings: StoreSettings,
    private readonly dialect: SchemaDialect,
  ) {
    this.sql = setupStatements(names, dialect.sql.transportName);
  }

  /**
   * Nothing is run where nothing is missing: changes of tables and views wait for the transactions that use them. A view of a
   * column that is gone cannot be made: then the check says which it is.
   */
  async create(settings: SchemaSettings): Promise<void> {
    if (await isFine(this.check(settings))) return;
    await this.dialect.checkServer(settings.ordering);
    const making = this.dialect.inTurn((session) => this.up(session, settings));
    await making.catch(async (error: unknown) => {
      if (this.isOf('noColumn', error)) await this.check(settings, ADDS_ONLY);
      throw error;
    });
    await this.check(settings, ADDS_ONLY);
  }

  /**
   * Tables of other settings are refused before anything is made. Settings that are not written yet are no others: somebody
   * died making these tables. Whoever waited for its turn finds them made.
   */
  private async up(session: SqlExecutor, settings: SchemaSettings): Promise<void> {
    if ((await this.readTables(session)).has('meta')) {
      const written = await this.readMeta(session);
      this.checkMade(new Map([...metaRows(settings), ...written]), settings);
    }
    if (await isFine(this.compare(session, settings, ADDS_ONLY))) return;
    for (const text of this.dialect.up(this.definitionOf(settings)))
      await session.run(statement(undefined, text).bind());
  }

  /** @param way what to do about tables that are not of this release */
  async check(settings: SchemaSettings, way = RUN_MIGRATIONS): Promise<void> {
    await this.dialect.checkServer(settings.ordering);
    await this.compare(this.admin, settings, way);
  }

  private async compare(db: SqlExecutor, settings: SchemaSettings, way: string): Promise<void> {
    const there = await this.readTables(db);
    if (there.has('meta')) this.checkMade(await this.readMeta(db), settings); // an earlier version has fewer tables
    const missing = TABLE_NAMES.filter((table) => !there.has(table)).map((table) => this.names[table]);
    if (missing.length > 0) {
      const hint = (there.size === 0 ? await this.elsewhere(db) : '') + way;
      throw new OutboxConfigurationError('SCHEMA_MISSING', `Tables are missing: ${missing.join(', ')}.`, { hint });
    }
    const wrong = await this.dialect.compare(db, this.definitionOf(settings));
    if (wrong.length === 0) return;
    misconfigured(`The tables are not what this release needs: ${wrong.join('; ')}.`, mendBy(way), 'SCHEMA_MISMATCH');
  }

  /** One schema at most, so that it can be named: of several none is more likely than the others. */
  private async elsewhere(db: SqlExecutor): Promise<string> {
    const { rows } = await db.run(ELSEWHERE.bind(`${this.settings.prefix}meta`));
    return rows.length === 1
      ? `The schema "${String(rows[0]?.[0])}" has such tables: set database.schema to it. Or: `
      : '';
  }

  private checkMade(stored: ReadonlyMap<string, string>, wanted: SchemaSettings): void {
    checkMade(stored, wanted, this.names.meta, (different) => this.dialect.wayOut(different, wanted, stored));
  }

  checkOrigin(): Promise<void> {
    return this.dialect.checkOrigin?.() ?? Promise.resolve();
  }

  async transports(names: readonly string[] = [], defaultName?: string): Promise<ReadonlyMap<string, number>> {
    const known = await this.readTransports(this.admin);
    // Without the lock, which takes a right to change something: a process that only enqueues may not have it.
    if (names.every((name) => known.has(name))) {
      for (const name of names) await this.restoreLeases(known.get(name) as number);
      return known;
    }
    return inTransaction(this.admin, async (tx) => {
      await tx.run(this.dialect.sql.lockTransports.bind());
      const registered = await this.readTransports(tx);
      const fresh = names.filter((name) => !registered.has(name));
      fresh.sort((a, b) => Number(b === defaultName) - Number(a === defaultName));
      let next = Math.max(-1, ...registered.values()) + 1;
      if (registered.size === 0 && fresh[0] !== defaultName) next = 1; // 0 is what plain SQL writers mean
      for (const name of fresh) {
        registered.set(name, next);
        await tx.run(this.sql.addTransport.bind(next, name));
        await tx.run(this.dialect.sql.addLeases.bind(next, this.dialect.buckets));
        next++;
      }
      return registered;
    });
  }

  /**
   * A script that empties tables takes lease rows with it, and nobody publishes a bucket without one. Its epoch is above
   * every one before; it is free once each instance that is alive now has renewed, and so knows that it lost its own.
   */
  private async restoreLeases(transport: number): Promise<void> {
    const { admin } = this;
    try {
      const { rows } = await admin.run(this.sql.leases.bind(transport));
      if (rows.length >= this.settings.buckets) return;
      await retried(() => admin.run(this.dialect.sql.restoreLeases.bind(transport, this.dialect.buckets)));
    } catch (error) {
      if (!this.isOf('noRight', error)) throw error; // who only enqueues: a relay's start does it
    }
  }

  private async readTables(db: SqlExecutor): Promise<ReadonlySet<TableName>> {
    const { rows } = await db.run(this.dialect.sql.tables);
    return new Set(rows.map(([name]) => name as TableName));
  }

  private async readMeta(db: SqlExecutor): Promise<ReadonlyMap<string, string>> {
    const { rows } = await db.run(this.sql.meta.bind());
    return new Map(rows.map(([name, value]) => [name as string, value as string]));
  }

  private async readTransports(db: SqlExecutor): Promise<Map<string, number>> {
    const { rows } = await db.run(this.sql.transports.bind());
    return new Map(rows.map(([name, id]) => [name as string, Number(id)]));
  }

  private definitionOf(settings: SchemaSettings): SchemaDefinition {
    return { ...settings, schema: this.settings.schema, prefix: this.settings.prefix };
  }

  private isOf(what: keyof SchemaDialect['codes'], error: unknown): boolean {
    const { errno, code } = error as { errno?: unknown; code?: unknown };
    return this.dialect.codes[what].includes(errno ?? code);
  }

  private get admin(): SqlConnection {
    return this.database.connection('admin');
  }
}

const ELSEWHERE = statement(
  undefined,
  'select table_schema from information_schema.tables where table_name = ? limit 2',
);

/** Whether a check of the tables found nothing to complain about. What is no finding, such as a lost connection, is thrown. */
const isFine = (check: Promise<void>): Promise<boolean> =>
  check.then(
    () => true,
    (error: unknown) => {
      if (error instanceof OutboxConfigurationError) return false;
      throw error;
    },
  );

function setupStatements({ meta, transports, leases }: TableNames, transportName: string) {
  return {
    meta: statement(undefined, `select name, value from ${meta}`),
    transports: statement(undefined, `select ${transportName}, id from ${transports}`),
    addTransport: statement(undefined, `insert into ${transports} (id, name) values (?, ?)`),
    leases: statement(undefined, `select bucket from ${leases} where transport = ?`),
  };
}
