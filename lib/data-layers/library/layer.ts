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
import { MysqlDatabase } from '../drivers/mysql-database.js';
import { watchMysql } from './mysql-watch.js';
import { askOnce, OtherPools, type Way } from '../drivers/other-pools.js';
import { PostgresDatabase } from '../drivers/postgres-database.js';
import { watchPostgres } from './postgres-watch.js';
import { askPlace, type Place } from './ask.js';
import { between } from './between.js';

/** The data layer of an application that has its database through this library: `dataLayer` of the module's options. */
export function dataLayerOf<Tx extends object>(library: Library<Tx>): OutboxDataLayer<Tx> {
  return new DriverLayer(library as unknown as Library<object>) as OutboxDataLayer as OutboxDataLayer<Tx>;
}

/** What watches the driver's connections of all layers, and of each the pool. */
const watches = new WeakMap<object, ConnectionWatch>();
const pools = new WeakMap<ConnectionWatch, object>();

class DriverLayer implements DataLayer {
  readonly source: object;
  readonly howTo: string;
  readonly dialect: 'postgres' | 'mysql';
  readonly relay: Way;
  defaultSchema: string | undefined;
  private readonly others = new OtherPools(() => this.relay);
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
      if (watches.has(key)) return;
      const watched = watch(connection) as ConnectionWatch;
      watches.set(key, watched);
      pools.set(watched, driver.pool);
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
    if (known !== undefined) return this.admitted(known);
    if (library.ask !== undefined) return this.asked(handle, identity);
    const connection = library.connectionOf?.(handle);
    if (connection === undefined) throw this.none();
    return this.admitted(this.sessionOf(watches.get(library.driver.connectionOf(connection)), handle) as DriverSession);
  }

  require(handle: object): Session | Promise<Session> {
    const found = this.find(handle);
    return found instanceof Promise ? found : this.active(found);
  }

  /** At once, where it is of the own pool. */
  private admitted(session: DriverSession): Session | Promise<Session> {
    const pool = pools.get(session.watch) as object;
    return pool === this.library.driver.pool ? session : this.others.admit(session, pool, foreign);
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
    return this.admitted(this.active(this.sessionOf(place.watch, handle, place.number)));
  }

  private active<Found extends Session>(session: Found | undefined): Found {
    if (session === undefined) throw this.none();
    session.demandActive();
    return session;
  }

  private sessionOf(watch: Place['watch'] | undefined, handle: object, number?: number): DriverSession | undefined {
    if (watch === undefined || watch.losesTransactions !== (this.dialect === 'mysql')) throw foreign();
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
    const ofSession = { postgres: 'select pg_catalog.current_schema()', mysql: 'select database()' };
    this.defaultSchema ??= await askOnce(this.relay, ofSession[this.dialect]);
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
    hint: 'The transaction is one of a pool for which no data layer was made, or something in between changes statements.',
  });

const foreign = (): OutboxTransactionRequiredError =>
  new OutboxTransactionRequiredError('The transaction runs on a connection that is not of the outbox.', {
    hint: 'Another pool leads into another database, where you name another outbox with @InjectOutbox(name); or it has no layer. Or the connection was taken from the pool before the layer was made, or the handle is of another db object.',
  });

let savepoints = 0;

class DriverSession implements Session {
  constructor(
    readonly watch: ConnectionWatch,
    readonly handle: object,
    private readonly library: Library<object>,
    private readonly sessionOf: (handle: object) => Session | Promise<Session>,
    readonly executor: SqlExecutor = watch,
  ) {}

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
        const moved = 'The proxy that outbox.bind was given stands for another transaction by now: pass that one.';
        if ((await this.sessionOf(inner)).watch !== watch) throw new OutboxTransactionRequiredError(moved);
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
