import type { MysqlSource } from '../drivers/mysql-clients.js';
import type { Driver } from '../library/library.js';
import { watchMariadb } from './mariadb-watch.js';

/** What we use of a pool of the driver mariadb. */
export interface MariadbPool {
  on(event: 'acquire', listener: (connection: object) => void): unknown;
  getConnection(): Promise<{ release(): Promise<void> }>;
  totalConnections(): number;
}
/** The connection behind those that it hands out. */
export interface Connection {
  /** Set anew with the connection's state. */
  addCommand(command: Command, expectsAnswer: boolean): void;
  query(command: object, resolve: (result: unknown) => void, reject: (error: Error) => void): void;
  isValid(): boolean;
  readonly info: { readonly status?: number };
  readonly opts: Readonly<Record<string, unknown>>;
}
export interface Command {
  readonly sql?: string;
  resolve(result: unknown): void;
  reject(error: Error): void;
  once(event: 'end', listener: () => void): unknown;
}
export interface Answer {
  readonly affectedRows?: number;
}
export interface DriverError extends Error {
  readonly sqlMessage?: string;
  readonly errno: number;
  readonly code?: string;
  readonly sqlState?: string;
  readonly fatal?: boolean;
}

export const isMariadbPool = (pool: object): pool is MariadbPool => 'totalConnections' in pool;

/** The relay's own connections are mysql2's, with the options of this pool: a connection tells them. */
export function mariadbDriver(pool: MariadbPool): Driver {
  let known: Promise<MysqlSource> | undefined;
  const source = async (): Promise<MysqlSource> => {
    const taken = new Promise<Connection>((resolve) => pool.on('acquire', (one) => resolve(one as Connection)));
    await pool.getConnection().then((connection) => connection.release());
    const { createConnection } = await import('mysql2');
    return {
      createConnection: createConnection as unknown as MysqlSource['createConnection'],
      options: addressOf((await taken).opts),
    };
  };
  return {
    pool,
    connectionOf: (connection) => connection,
    onConnection: (seen) => void pool.on('acquire', seen),
    watch: watchMariadb,
    relay: {
      get mysql() {
        known ??= source().catch((error: unknown) => {
          known = undefined; // the next one asks again
          throw error;
        });
        known.catch(() => undefined); // told to who asks for a connection
        return known;
      },
    },
  };
}

function addressOf(options: Connection['opts']): object {
  const given = OF_THE_ADDRESS.filter((name) => options[name] !== undefined && options[name] !== false);
  const { ssl } = options;
  return {
    ...Object.fromEntries(given.map((name) => [name, options[name]])),
    ...(typeof ssl === 'object' || ssl === true ? { ssl: { verifyIdentity: true, ...Object(ssl) } } : {}),
  };
}
const OF_THE_ADDRESS = ['host', 'port', 'socketPath', 'user', 'password', 'database', 'connectAttributes', 'compress'];
