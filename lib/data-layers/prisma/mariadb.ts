import type { MysqlSource } from '../drivers/mysql-clients.js';
import type { Driver } from '../library/library.js';
import type { Connection } from './mariadb-connection.js';
import { MariadbWatch } from './mariadb-watch.js';

/** What we use of a pool of the driver mariadb. */
export interface MariadbPool {
  on(event: 'acquire', listener: (connection: object) => void): unknown;
  getConnection(): Promise<{ release(): Promise<void> }>;
  totalConnections(): number;
}
export const isMariadbPool = (pool: object): pool is MariadbPool => 'totalConnections' in (Object(pool) as object);

/** The relay's own connections are mysql2's, with the options of this pool: a connection tells them. */
export function mariadbDriver(pool: MariadbPool): Driver {
  let source: Promise<MysqlSource> | undefined;
  return {
    pool,
    connectionOf: (connection) => connection,
    onConnection: (seen) => void pool.on('acquire', seen),
    watch: (connection) => new MariadbWatch(connection as Connection),
    relay: {
      get mysql() {
        source ??= sourceOf(pool).catch((error: unknown) => {
          source = undefined; // who asks next tries again
          throw error;
        });
        source.catch(() => undefined); // told to who asks for a connection
        return source;
      },
    },
  };
}

async function sourceOf(pool: MariadbPool): Promise<MysqlSource> {
  const taken = new Promise<Connection>((resolve) => pool.on('acquire', (one) => resolve(one as Connection)));
  await pool.getConnection().then((connection) => connection.release());
  const { createConnection } = (await import('mysql2')) as unknown as Pick<MysqlSource, 'createConnection'>;
  return { createConnection, options: addressOf((await taken).opts) };
}

const OF_THE_ADDRESS = ['host', 'port', 'socketPath', 'user', 'password', 'database', 'connectAttributes', 'compress'];

function addressOf(options: Connection['opts']): object {
  const { ssl } = options;
  const given = OF_THE_ADDRESS.filter((name) => options[name] !== undefined && options[name] !== false);
  const address = Object.fromEntries(given.map((name) => [name, options[name]]));
  return ssl === true || typeof ssl === 'object'
    ? { ...address, ssl: { verifyIdentity: true, ...Object(ssl) } }
    : address;
}
