import type { DataSource } from 'typeorm';
import type { ResolvedOptions } from '../../outbox.options.js';
import type { Tables } from '../../transaction/data-layer.js';
import { connectionSchema, dialectOf } from './dialect.js';

/**
 * Told by the options, to which TypeORM added what the server said of database and schema. The server itself is not asked: a
 * start waits for no pool, and two servers are never taken for one, as what they say of themselves is equal in copies. A
 * server under two names counts as two, which costs what two processes cost.
 */
export function tablesOf(dataSource: DataSource, { database, store }: ResolvedOptions): Tables {
  if (store !== undefined) return { server: dataSource, names: JSON.stringify([database.schema, database.prefix]) };
  const dialect = dialectOf(dataSource);
  const inDatabase = dialect === 'postgres' ? dataSource.driver.database : undefined; // elsewhere a schema is a database
  const schema = database.schema ?? connectionSchema(dataSource);
  return {
    server: serverOf(dataSource, DEFAULT_PORT[dialect]),
    names: JSON.stringify([inDatabase, schema, database.prefix]),
  };
}

const DEFAULT_PORT = { postgres: 5432, mysql: 3306 } as const;
/** What of `extra` decides where a driver connects, or how. */
const OWN_WAYS = ['host', 'port', 'socketPath', 'connectionString', 'uri', 'Client', 'stream'];
const LOOPBACK = /^(localhost|127\.0\.0\.1|\[?::1\]?)$/;

interface Address {
  readonly host?: string | undefined;
  readonly port?: number | string | undefined;
  readonly socketPath?: string;
}
interface Connecting extends Address {
  readonly url?: string;
  readonly driver?: unknown;
  readonly extra?: Readonly<Record<string, unknown>>;
  readonly replication?: { readonly master: Connecting };
}

/** An embedded database or a connector of a cloud comes as a driver, a client or a stream of the application's. */
function serverOf(dataSource: DataSource, defaultPort: number): string | DataSource {
  const options = dataSource.options as Connecting;
  const { driver, extra = {}, replication } = options;
  if (driver !== undefined || OWN_WAYS.some((name) => extra[name] !== undefined)) return dataSource;
  const given = replication?.master ?? options;
  const address = given.url === undefined ? given : addressIn(given.url);
  if (address === undefined) return dataSource;
  const { host = '', port = defaultPort, socketPath } = address; // without a host it is the driver's default, for both
  if (socketPath !== undefined) return `${defaultPort} ${socketPath}`;
  return `${defaultPort} ${LOOPBACK.test(host) ? 'localhost' : host.toLowerCase()} ${port}`;
}

/** `undefined` for what only the driver can read. */
function addressIn(url: string): Address | undefined {
  if (!URL.canParse(url)) return undefined;
  const { hostname, port, searchParams } = new URL(url);
  const host = searchParams.get('host') ?? hostname;
  return host === '' ? undefined : { host, port: searchParams.get('port') ?? (port || undefined) };
}
