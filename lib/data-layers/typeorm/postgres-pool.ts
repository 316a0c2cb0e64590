import type { DataSource } from 'typeorm';
import { systemClock, within } from '../../time/clock.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { StoreSettings } from '../../store/names.js';
import { StoreClosed } from '../../store/executor.js';
import { ownDataSource } from './own-data-source.js';
import type { PgClient } from '../drivers/postgres-connection.js';

/** How much longer than the server's statement timeout the client waits before it drops the connection. */
const CLIENT_GRACE = 2_000;
/** Milliseconds that a server may take to close a connection. */
const GOODBYE = 1_000;

/** Clients of our own, opened as they are asked for. */
export class PostgresPool {
  private dataSource: DataSource | undefined;
  private opening: Promise<DataSource> | undefined;
  closed = false;

  /** @param url leads elsewhere than the application's connections */
  constructor(
    readonly application: DataSource,
    readonly settings: StoreSettings,
    readonly max: number,
    readonly url?: string,
  ) {}

  async take(): Promise<{ client: PgClient; release(): Promise<void> }> {
    const runner = (await this.open()).createQueryRunner('master');
    const client = (await runner.connect()) as PgClient;
    client.binary = false;
    return {
      client,
      async release() {
        // Ended first: our session settings must never reach another borrower, a hung statement must not be waited for, and
        // who does not answer us does not answer the next one.
        await goodbye(client);
        await runner.release();
      },
    };
  }

  /** Takes nothing from now on. */
  async close(): Promise<void> {
    this.closed = true;
    const dataSource = await this.opening?.catch(() => undefined);
    if (dataSource?.isInitialized) await dataSource.destroy();
  }

  private open(): Promise<DataSource> {
    if (this.closed) return Promise.reject(new StoreClosed());
    return (this.opening ??= this.initialize().catch((error: unknown) => {
      this.opening = undefined;
      throw error;
    }));
  }

  private initialize(): Promise<DataSource> {
    const url = this.url && completed(this.url, credentialsOf(this.application));
    const extra = {
      max: this.max,
      connectionTimeoutMillis: this.settings.connectTimeout,
      query_timeout: this.settings.statementTimeout + CLIENT_GRACE,
      keepAlive: true,
      application_name: 'nestjs-outbox',
      Client: quietClient(this.application, url),
    };
    const other = { host: undefined, port: undefined, username: undefined, database: undefined };
    const address = url === undefined ? {} : { url, ...other };
    this.dataSource ??= ownDataSource(this.application, this.settings, extra, address);
    return this.dataSource.initialize();
  }
}

/**
 * A URL that names user, host and database, for the driver, which takes what it says before all else. What it lacks beside the
 * address is the application's: its password, and each parameter of its URL, such as `sslmode`.
 */
function completed(url: string, { url: applications = '', password }: Credentials): string {
  const own = new URL(url);
  const other = URL.canParse(applications) ? new URL(applications) : undefined;
  if (own.password === '')
    own.password = other?.password || encodeURIComponent(typeof password === 'string' ? password : '');
  for (const [name, value] of other?.searchParams ?? [])
    if (!OF_THE_ADDRESS.has(name) && !own.searchParams.has(name)) own.searchParams.set(name, value);
  return own.href;
}

/** Parameters by which a URL may name what stands in front of them, too. */
const OF_THE_ADDRESS: ReadonlySet<string> = new Set(['host', 'port', 'user', 'password']);

/** Of the primary: what the driver calls for a password may stand in place of one. */
interface Credentials {
  url?: string;
  password?: unknown;
}

function credentialsOf({ options }: DataSource): Credentials {
  const { replication, ...all } = options as Credentials & { replication?: { master: Credentials } };
  return replication?.master ?? all;
}

/** An idle client waits for the server to close, where no packet comes back until the system gives up: a quarter of an hour. */
async function goodbye(client: PgClient): Promise<void> {
  const ended = client.end().catch(() => undefined);
  if (!(await within(systemClock, GOODBYE, ended))) client.connection?.stream?.destroy();
}

/**
 * The statement in hand fails by itself, and without one nobody is interested. From the first moment: a server may end a
 * connection in the packet that says it is ready, when the pool has ceased to listen and nobody else has begun to.
 */
function quietClient(application: DataSource, url?: string): new (options: unknown) => PgClient {
  const { Client } = (application.driver as unknown as { postgres: { Client: new (options: unknown) => PgClient } })
    .postgres;
  const { password } = credentialsOf(application);
  // No URL has a function: the driver asks the client's own.
  const ask = url !== undefined && new URL(url).password === '' && typeof password === 'function' ? { password } : {};
  return class QuietClient extends Client {
    constructor(options: unknown) {
      super(options);
      if ('native' in this) throw refusal();
      Object.assign(this, ask);
      this.on('error', () => undefined);
    }
  };
}

/** It takes no parser of a statement, answers with other values than texts, and cuts a payload at its first zero byte. */
const refusal = (): OutboxConfigurationError =>
  new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'The DataSource reaches PostgreSQL through pg-native.', {
    hint: "TypeORM takes it wherever it is installed: import pg from 'pg', and give the DataSource driver: { ...pg }, which is without it. Or uninstall pg-native, and unset NODE_PG_FORCE_NATIVE.",
  });
