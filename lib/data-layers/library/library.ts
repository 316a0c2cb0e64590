import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { IsolationLevel } from '../../outbox-data-layer.js';
import type { MysqlSource } from '../drivers/mysql-clients.js';
import type { PostgresSource } from '../drivers/postgres-clients.js';

/**
 * SEAM: the library through which an application reaches its database, over pg or mysql2. It says which connection of the driver
 * a transaction runs on; what is sent there is watched by {@link dataLayerOf}, the same for all.
 */
export interface Library<Tx extends object> {
  /** The application's own object: a pool, a client. Outboxes with the same one share its transactions. */
  readonly source: object;
  /** What its connections are made of. */
  readonly driver: Driver;
  /** How a caller says in which transaction he is: the hint of an error. */
  readonly howTo: string;
  /** Whether it is of this library: an object of another kind is refused. Default: any is. */
  isHandle?(handle: object): boolean;
  /** Whether it is the library's own object, and no transaction: by what it has, as others are `in` a proxy. Default: `source` is. */
  isDatabase?(handle: object): boolean;
  /** Whether it is known to have ended: its connection may be in another one. Default: its connection tells. */
  hasEnded?(handle: object): boolean;
  /** The driver's connection of a transaction; `undefined` for a handle without one, or with one that has ended. */
  connectionOf?(handle: object): object | undefined;
  /** In place of it, where a handle does not show its connection: runs this statement in the transaction, which tells. */
  ask?(tx: Tx, statement: string): Promise<unknown>;
  /**
   * What is one object for one transaction, read from the handle: a proxy may stand for another one each time. A transaction is asked
   * for once by it. Default: each enqueue asks.
   */
  identityOf?(handle: object): object | undefined;
  /** Begins a transaction; commits when `work` resolves, and rolls back when it rejects. */
  transaction<T>(work: (tx: Tx) => Promise<T>, isolation?: IsolationLevel): Promise<T>;
  /** A savepoint in it; left out, it is made by statements on the connection, with the same handle inside. */
  nested?<T>(tx: Tx, work: (tx: Tx) => Promise<T>): Promise<T>;
}

/** A driver's pool. */
export interface Driver {
  /** Outboxes in one place of it are noticed. */
  readonly pool: object;
  /** What is one for each of the driver's connections, behind a client, a connection with promises, a proxy. */
  connectionOf(client: object): object;
  /** Calls `seen` with each connection before the application sends anything on it. */
  onConnection(seen: (connection: object) => void): void;
  /** A `ConnectionWatch` of one of another driver, from now on. Default: of pg or mysql2. */
  watch?(connection: object): object;
  /** Where the relay's own connections lead. */
  readonly relay: { readonly postgres: PostgresSource } | { readonly mysql: MysqlSource | Promise<MysqlSource> };
}

/** Of a pool of pg or mysql2; `undefined`: it is neither. */
export function poolDriver(given: object | undefined): Driver | undefined {
  const pool = Object(given) as object;
  if ('totalCount' in pool) return pgDriver(pool as unknown as PgPool);
  return 'getConnection' in pool ? mysql2Driver(pool as unknown as Mysql2Pool) : undefined;
}

/** What we use of the pool of pg. */
export interface PgPool {
  on(event: 'acquire', listener: (client: object) => void): unknown;
  readonly options: object;
}
export function pgDriver(pool: PgPool): Driver {
  if (!('totalCount' in (Object(pool) as object)))
    throw refusal('The layer was given no pool of pg.', 'Make one: new Pool({ … }).');
  return {
    pool,
    connectionOf: (client) => (client as { connection?: object }).connection ?? client,
    onConnection: (seen) => void pool.on('acquire', seen),
    relay: { postgres: pool as unknown as PostgresSource },
  };
}

/** What we use of the pool of mysql2; one with promises is around another. */
export interface Mysql2Pool {
  on(event: 'acquire', listener: (connection: object) => void): unknown;
  readonly pool?: object;
}
export function mysql2Driver(pool: Mysql2Pool): Driver {
  const { config } = (pool.pool ?? pool) as { config?: { connectionConfig?: Readonly<Record<string, unknown>> } };
  const options = config?.connectionConfig;
  if (options === undefined) throw refusal('The layer was given no pool of mysql2.', 'Make one: createPool({ … }).');
  if (options['queryFormat'] !== undefined)
    throw refusal('The pool of mysql2 has a queryFormat.', 'Leave it out, or give the outbox another pool.');
  const address = Object.fromEntries(OF_THE_ADDRESS.map((name) => [name, options[name]]));
  return {
    pool: pool.pool ?? pool,
    connectionOf: coreOf,
    onConnection: (seen) => void pool.on('acquire', (one) => seen(coreOf(one))),
    get relay() {
      const mysql = import('mysql2').then(({ createConnection }) => ({
        createConnection: createConnection as unknown as MysqlSource['createConnection'],
        options: Object.fromEntries(Object.entries(address).filter(([, value]) => value !== undefined)),
      }));
      mysql.catch(() => undefined); // told to who asks for a connection
      return { mysql };
    },
  };
}

function coreOf(connection: object): object {
  const { connection: core } = connection as { connection?: unknown };
  return typeof core === 'object' && core !== null ? core : connection;
}

const refusal = (problem: string, hint: string): OutboxConfigurationError =>
  new OutboxConfigurationError('UNSUPPORTED_DATABASE', problem, { hint });

const OF_THE_ADDRESS = [
  ...['host', 'port', 'socketPath', 'localAddress', 'stream', 'database', 'connectAttributes', 'compress'],
  ...['user', 'password', 'password2', 'password3', 'passwordSha1', 'authPlugins', 'authSwitchHandler'],
  ...['insecureAuth', 'enableCleartextPlugin', 'ssl', 'disableEval'],
];
