import { systemClock, within } from '../../time/clock.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { StoreClosed } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import type { PgClient } from './postgres-connection.js';

/** How much longer than the server's statement timeout the client waits before it drops the connection. */
const CLIENT_GRACE = 2_000;
/** Milliseconds that a server may take to close a connection. */
const GOODBYE = 1_000;

/** How an application reaches PostgreSQL: what its pool makes clients of. */
export interface PostgresSource {
  readonly Client: new (options: unknown) => PgClient & { connect(): Promise<unknown> };
  /** Of a client, with its password. */
  readonly options: PgOptions;
}
interface PgOptions {
  readonly connectionString?: string | undefined;
  /** A text, or what the driver calls for one. */
  readonly password?: unknown;
  readonly [other: string]: unknown;
}

/** Clients of the relay's own. */
export class PostgresClients {
  closed = false;

  /** @param url leads elsewhere than the application's connections */
  constructor(
    readonly source: PostgresSource,
    readonly settings: Pick<StoreSettings, 'connectTimeout' | 'statementTimeout'>,
    readonly url?: string,
  ) {}

  async take(): Promise<{ client: PgClient; release(): Promise<void> }> {
    if (this.closed) throw new StoreClosed();
    const client = new this.source.Client(this.options());
    if ('native' in client) throw refusal();
    client.binary = false;
    const { password } = this.source.options;
    // No URL has a function: the driver asks the client's own.
    if (typeof password === 'function' && this.url !== undefined && new URL(this.url).password === '')
      Object.assign(client, { password });
    // The statement in hand fails by itself, and without one nobody is interested. From the first moment: a server may end a
    // connection in the packet that says it is ready.
    client.on('error', () => undefined);
    try {
      await client.connect();
    } catch (error) {
      client.connection?.stream?.destroy();
      throw error;
    }
    // Ended, and never handed on: our session settings reach nobody else.
    return { client, release: () => goodbye(client) };
  }

  private options(): object {
    const { source, settings, url } = this;
    const address = url === undefined ? {} : elsewhere(url, source.options);
    return {
      ...source.options,
      password: source.options.password, // a pool hides it
      ...address,
      connectionTimeoutMillis: settings.connectTimeout,
      query_timeout: settings.statementTimeout + CLIENT_GRACE,
      keepAlive: true,
      application_name: 'nestjs-outbox',
    };
  }
}

/**
 * A URL that names user, host and database, for the driver, which takes what it says before all else. What it lacks beside the
 * address is the application's: its password, and each parameter of its URL, such as `sslmode`.
 */
function elsewhere(url: string, { connectionString: applications = '', password }: PgOptions): object {
  const own = new URL(url);
  const other = URL.canParse(applications) ? new URL(applications) : undefined;
  if (own.password === '')
    own.password = other?.password || encodeURIComponent(typeof password === 'string' ? password : '');
  for (const [name, value] of other?.searchParams ?? [])
    if (!OF_THE_ADDRESS.has(name) && !own.searchParams.has(name)) own.searchParams.set(name, value);
  return { connectionString: own.href, host: undefined, port: undefined, user: undefined, database: undefined };
}

/** Parameters by which a URL may name what stands in front of them, too. */
const OF_THE_ADDRESS: ReadonlySet<string> = new Set(['host', 'port', 'user', 'password']);

/** An idle client waits for the server to close, where no packet comes back until the system gives up: a quarter of an hour. */
async function goodbye(client: PgClient): Promise<void> {
  const ended = client.end().catch(() => undefined);
  if (!(await within(systemClock, GOODBYE, ended))) client.connection?.stream?.destroy();
}

/** It takes no parser of a statement, answers with other values than texts, and cuts a payload at its first zero byte. */
const refusal = (): OutboxConfigurationError =>
  new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'The application reaches PostgreSQL through pg-native.', {
    hint: "Some libraries take it wherever it is installed: give TypeORM's DataSource driver: { ...pg }, which is without it, or the pool of pg itself. Or uninstall pg-native, and unset NODE_PG_FORCE_NATIVE.",
  });
