import type { DataSource } from 'typeorm';
import { systemClock, within } from '../../time/clock.js';
import type { StoreSettings } from '../../store/names.js';
import { StoreClosed } from '../../store/executor.js';
import { ownDataSource } from './own-data-source.js';
import type { PgClient } from './postgres-connection.js';

/** How much longer than the server's statement timeout the client waits before it drops the connection. */
const CLIENT_GRACE = 2_000;
/** Milliseconds that a server may take to close a connection. */
const GOODBYE = 1_000;

/** Clients of our own, opened as they are asked for. */
export class PostgresPool {
  /** @internal */ dataSource: DataSource | undefined;
  /** @internal */ opening: Promise<DataSource> | undefined;
  /** @internal */ closed = false;

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

  /** @internal */ open(): Promise<DataSource> {
    if (this.closed) return Promise.reject(new StoreClosed());
    this.opening ??= this.initialize().catch((error: unknown) => {
      this.opening = undefined;
      throw error;
    });
    return this.opening;
  }

  /** @internal */ initialize(): Promise<DataSource> {
    const extra = {
      max: this.max,
      connectionTimeoutMillis: this.settings.connectTimeout,
      query_timeout: this.settings.statementTimeout + CLIENT_GRACE,
      keepAlive: true,
      application_name: 'nestjs-outbox',
      Client: quietClient(this.application),
    };
    const address = this.url === undefined ? {} : addressOf(this.url, this.application);
    this.dataSource ??= ownDataSource(this.application, this.settings, extra, address);
    return this.dataSource.initialize();
  }
}

/** Of a URL that names user, host and database. A password that it lacks is the application's. */
function addressOf(url: string, application: DataSource): object {
  const { hostname, port, username, password, pathname } = new URL(url);
  return {
    url: undefined,
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? 5432 : Number(port),
    username: decodeURIComponent(username),
    database: decodeURIComponent(pathname.slice(1)),
    password: password === '' ? passwordOf(application) : decodeURIComponent(password),
  };
}

/** A text, or what the driver calls for one. TypeORM takes what a URL says before all else. */
function passwordOf({ options }: DataSource): unknown {
  const all = options as Credentials & { replication?: { master: Credentials } };
  const { url = '', password } = { ...all, ...all.replication?.master };
  return (URL.canParse(url) && decodeURIComponent(new URL(url).password)) || password;
}

interface Credentials {
  url?: string;
  password?: unknown;
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
function quietClient({ driver }: DataSource): new (options: unknown) => PgClient {
  const { Client } = (driver as unknown as { postgres: { Client: new (options: unknown) => PgClient } }).postgres;
  return class QuietClient extends Client {
    constructor(options: unknown) {
      super(options);
      this.on('error', () => undefined);
    }
  };
}
