import { typeName } from '../../options/text-checks.js';
import { OutboxError, OutboxTransactionRequiredError } from '../../outbox.errors.js';
import type { IsolationLevel, OutboxDataLayer } from '../../outbox-data-layer.js';
import type { ResolvedOptions } from '../../outbox.options.js';
import type { SqlDatabase, SqlExecutor } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import type { DataLayer, Session, Tables } from '../../transaction/data-layer.js';
import { over } from '../../transaction/errors.js';
import type { ConnectionWatch } from './connection-watch.js';
import type { Library } from './library.js';
import { MysqlClients } from '../drivers/mysql-clients.js';
import { query } from '../drivers/mysql-connection.js';
import { MysqlDatabase } from '../drivers/mysql-database.js';
import { watchMysql } from './mysql-watch.js';
import { PostgresClients } from '../drivers/postgres-clients.js';
import { RAW } from '../drivers/postgres-connection.js';
import { PostgresDatabase } from '../drivers/postgres-database.js';
import { watchPostgres } from './postgres-watch.js';
import { askPlace, type Place } from './ask.js';
import { between } from './between.js';

/** The data layer of an application that has its database through this library: `dataLayer` of the module's options. */
export function dataLayerOf<Tx extends object>(library: Library<Tx>): OutboxDataLayer<Tx> {
  return new DriverLayer(library as unknown as Library<object>) as OutboxDataLayer as OutboxDataLayer<Tx>;
}

/** Milliseconds for the question of the start. */
const PATIENCE = { connectTimeout: 10_000, statementTimeout: 10_000 };

class DriverLayer implements DataLayer {
  readonly source: object;
  readonly howTo: string;
  readonly dialect: 'postgres' | 'mysql';
  readonly relay: Library<object>['driver']['relay'];
  defaultSchema: string | undefined;
  private readonly watches = new WeakMap<object, ConnectionWatch>();
  private readonly own = new WeakSet<object>();
  /** Of transactions that were asked for. */
  private readonly places = new WeakMap<object, Place>();
  private readonly asking = new WeakMap<object, ReturnType<typeof askPlace>>();

  constructor(readonly library: Library<object>) {
    const { source, howTo, driver } = library;
    this.source = source;
    this.howTo = howTo;
    this.relay = driver.relay;
    this.dialect = 'postgres' in this.relay ? 'postgres' : 'mysql';
    const watch = driver.watch ?? (this.dialect === 'postgres' ? watchPostgres : watchMysql);
    driver.onConnection((connection) => {
      const key = driver.connectionOf(connection);
      if (this.watches.has(key)) return;
      const watched = watch(connection) as ConnectionWatch;
      this.watches.set(key, watched);
      this.own.add(watched);
    });
  }

  find(handle: object): Session | Promise<Session> | undefined {
    const { library, places } = this;
    if (Object(handle) !== handle || library.isHandle?.(handle) === false) {
      throw new OutboxTransactionRequiredError(`${typeName(handle)} is no transaction.`, { hint: this.howTo });
    }
    if (library.isDatabase?.(handle) ?? handle === this.source) return undefined;
    if (library.hasEnded?.(handle) === true) throw this.none();
    const identity = library.identityOf?.(handle);
    const place = identity && places.get(identity);
    const known = place && this.sessionOf(place.watch, handle, place.number);
    if (known !== undefined) return known;
    if (library.ask !== undefined) return this.asked(handle, identity);
    const connection = library.connectionOf?.(handle);
    if (connection === undefined) throw this.none();
    return this.sessionOf(this.watches.get(library.driver.connectionOf(connection)), handle);
  }

  require(handle: object): Session | Promise<Session> {
    const found = this.find(handle);
    return found instanceof Promise ? found : this.active(found);
  }

  private async asked(handle: object, identity: object | undefined): Promise<Session> {
    const known = identity && this.asking.get(identity);
    const asking = known ?? askPlace(async (statement) => this.library.ask?.(handle, statement));
    if (identity !== undefined && known === undefined) {
      // Messages that are enqueued at once ask once: drivers are given one statement at a time.
      this.asking.set(identity, asking);
      void Promise.allSettled([asking]).then(() => this.asking.delete(identity));
    }
    const place = await asking.catch((cause: unknown) => {
      throw this.none(cause);
    });
    if (place === undefined) throw unheard();
    if (place === 'outside') throw this.none();
    if (identity !== undefined) this.places.set(identity, place);
    return this.active(this.sessionOf(place.watch, handle, place.number));
  }

  private active(session: Session | undefined): Session {
    if (session === undefined) throw this.none();
    session.demandActive();
    return session;
  }

  private sessionOf(watch: Place['watch'] | undefined, handle: object, number?: number): Session | undefined {
    if (watch === undefined || !this.own.has(watch)) throw foreign();
    if (number !== undefined && number !== watch.state.number) return undefined;
    return new DriverSession(watch as ConnectionWatch, handle, this.library, (inner) => this.require(inner));
  }

  private none(cause?: unknown): OutboxTransactionRequiredError {
    return new OutboxTransactionRequiredError('There is no open transaction behind it.', { hint: this.howTo, cause });
  }

  transaction<T>(work: (tx: object) => Promise<T>, isolation?: IsolationLevel): Promise<T> {
    return this.library.transaction(work, isolation).catch((error: unknown) => {
      const { cause } = (error ?? {}) as { cause?: unknown };
      throw cause instanceof OutboxError ? cause : error; // a library may wrap what its COMMIT was refused with
    });
  }

  /** They are, since the layer was made. */
  watchTransactions(): void {}

  async open(): Promise<void> {
    this.defaultSchema ??= await askSchema(this.relay);
  }

  tablesOf({ database: { schema = this.defaultSchema, prefix } }: ResolvedOptions): Tables {
    return { server: this.library.driver.pool, names: JSON.stringify([schema, prefix]) };
  }

  openDatabase(settings: StoreSettings): SqlDatabase {
    const { relay } = this;
    return 'postgres' in relay
      ? new PostgresDatabase(relay.postgres, settings)
      : new MysqlDatabase(relay.mysql, settings);
  }
}

const unheard = (): OutboxTransactionRequiredError =>
  new OutboxTransactionRequiredError('The statement that asks for its connection was heard on none of the pool.', {
    hint: 'The transaction is one of another pool than the data layer has, or something in between changes statements.',
  });

const foreign = (): OutboxTransactionRequiredError =>
  new OutboxTransactionRequiredError('The transaction runs on a connection that is not of the outbox.', {
    hint: 'An outbox writes into the database of its own data layer; name another outbox with @InjectOutbox(name). Or the connection was taken from the pool before the layer was made, or the handle is of another db object.',
  });

async function askSchema(relay: Library<object>['driver']['relay']): Promise<string | undefined> {
  if ('postgres' in relay) {
    const { client, release } = await new PostgresClients(relay.postgres, PATIENCE).take();
    const asked = client.query({ text: 'select pg_catalog.current_schema()', rowMode: 'array', types: RAW });
    const { rows } = await asked.finally(release);
    return (rows[0]?.[0] as string | null) ?? undefined;
  }
  const client = await new MysqlClients(relay.mysql, PATIENCE).take();
  const asked = query(client, 'select database()', [], PATIENCE.statementTimeout);
  const [row] = (await asked.finally(() => client.end(() => undefined))) as (string | null)[][];
  return row?.[0] ?? undefined;
}

let savepoints = 0;
const MOVED =
  'The proxy that outbox.bind was given stands for another transaction by now: give it the transaction itself.';

class DriverSession implements Session {
  constructor(
    readonly watch: ConnectionWatch,
    readonly handle: object,
    private readonly library: Library<object>,
    private readonly sessionOf: (handle: object) => Session | Promise<Session>,
  ) {}

  get executor(): SqlExecutor {
    return this.watch;
  }

  get isActive(): boolean {
    return this.watch.isActive;
  }

  demandActive(): void {
    if (this.isActive) return;
    const { doubtful, ended } = this.watch.state;
    if (doubtful && !ended) throw over(new Error('The server says that no transaction is open.'));
    const text = 'The connection has no open transaction: it did not begin, or it has ended.';
    throw new OutboxTransactionRequiredError(text, { hint: this.library.howTo });
  }

  listen(): ConnectionWatch {
    return this.watch;
  }

  nested<T>(work: (tx: object) => Promise<T>): Promise<T> {
    const { library, handle, watch } = this;
    if (library.nested !== undefined) {
      return library.nested(handle, async (inner) => {
        if ((await this.sessionOf(inner)).watch !== watch) throw new OutboxTransactionRequiredError(MOVED);
        return work(inner);
      });
    }
    const name = `outbox_nested_${(savepoints += 1)}`;
    const statements = { begin: `savepoint ${name}`, end: `release savepoint ${name}`, back: `rollback to ${name}` };
    const { number } = watch.state;
    /** Prisma ends a transaction by a timeout, under its work: its connection may be in somebody else's by now. */
    const send = async (text: string): Promise<unknown> => {
      if (watch.state.number !== number || watch.state.ended) throw over();
      return watch.send(text);
    };
    return between(send, statements, () => work(handle));
  }
}
