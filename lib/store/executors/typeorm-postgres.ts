import type { DataSource } from 'typeorm';
import { systemClock, within } from '../../dispatch/clock.js';
import { MOST_PUBLISHING, ownDataSource } from './own-data-source.js';
import { StoreClosed, type ConnectionRole, type SqlDatabase } from './executor.js';
import type { StoreSettings } from '../schema/names.js';
import { PINNED_PATH } from '../schema/postgres-catalog.js';
import { PostgresConnection, RAW, type CheckedOut, type PgClient } from './postgres-connection.js';
import { listenOn } from './postgres-listener.js';

/** How much longer than the server's statement timeout the client waits before it drops the connection. */
const CLIENT_GRACE = 2_000;
/** Milliseconds. Leases are locked for milliseconds; whoever waits longer meets somebody else's open transaction. */
const LEASE_LOCK_WAIT = 2_000;
/** Milliseconds that a server may take to close a connection. */
const GOODBYE = 1_000;
/** On top of the roles' connections, and of those of transports. */
const LISTENERS = 1;

/**
 * Which roles share a connection when there are fewer than four. `settle` shares with nobody that must be durable
 * unless it has to; leases are always alone, so that a renewal never waits for a batch.
 */
const SHARED: Readonly<Record<number, Readonly<Record<ConnectionRole, ConnectionRole>>>> = {
  2: { read: 'read', settle: 'read', admin: 'read', lease: 'lease' },
  3: { read: 'read', settle: 'settle', admin: 'read', lease: 'lease' },
};

export function openPostgresDatabase(application: DataSource, settings: StoreSettings): SqlDatabase {
  return new TypeOrmPostgresDatabase(application, settings);
}

class TypeOrmPostgresDatabase implements SqlDatabase {
  /** @internal */ readonly connections = new Map<ConnectionRole | number, PostgresConnection>();
  /** @internal */ readonly listeners = new Set<{ close(): Promise<void> }>();
  /** @internal */ dataSource: DataSource | undefined;
  /** @internal */ opening: Promise<DataSource> | undefined;
  /** @internal */ closed = false;

  constructor(
    readonly application: DataSource,
    readonly settings: StoreSettings,
  ) {}

  connection(role: ConnectionRole): PostgresConnection {
    const owner = SHARED[this.settings.poolSize]?.[role] ?? role;
    let connection = this.connections.get(owner);
    if (connection === undefined) {
      const asynchronous =
        owner === 'settle' && this.settings.onPublished === 'delete' ? 'set synchronous_commit = off;' : '';
      connection = this.connect(owner === 'lease' ? `set lock_timeout = ${LEASE_LOCK_WAIT};` : asynchronous);
      this.connections.set(owner, connection);
    }
    return connection;
  }

  publishing(transport: number): PostgresConnection {
    let connection = this.connections.get(transport);
    if (connection === undefined) {
      connection = this.connect('', this.settings.idleWithLocks);
      this.connections.set(transport, connection);
    }
    return connection;
  }

  /** @internal */ connect(extraSettings: string, idleInTransaction?: number): PostgresConnection {
    return new PostgresConnection(
      () => this.checkOut(extraSettings),
      this.settings.preparedStatements,
      () => this.connections.forEach((connection) => void connection.drop()),
      idleInTransaction,
      this.settings.closeIdleAfter,
    );
  }

  async listen(
    channel: string,
    onNotify: (payload: string) => void,
    onLost: (error: unknown) => void,
  ): Promise<{ close(): Promise<void> }> {
    const client = await this.checkOut('');
    const listener = await listenOn(client, channel, onNotify, (error) => {
      this.listeners.delete(listener);
      onLost(error);
    });
    this.listeners.add(listener);
    return {
      close: async () => {
        this.listeners.delete(listener);
        await listener.close();
      },
    };
  }

  async close(): Promise<void> {
    this.closed = true;
    const open = [...this.connections.values(), ...this.listeners];
    this.listeners.clear();
    await Promise.all(open.map((connection) => connection.close()));
    const dataSource = await this.opening?.catch(() => undefined);
    if (dataSource?.isInitialized) await dataSource.destroy();
  }

  /** A client of its own, with our session settings. */
  /** @internal */ async checkOut(extraSettings: string): Promise<CheckedOut> {
    const runner = (await this.open()).createQueryRunner('master');
    const client = (await runner.connect()) as PgClient;
    const release = async (): Promise<void> => {
      // Ended first: our session settings must never reach another borrower, a hung statement must not be waited for, and
      // who does not answer us does not answer the next one.
      await goodbye(client);
      await runner.release();
    };
    try {
      const ours = this.settings.preparedStatements;
      if (ours) await client.query(sessionSettings(this.settings) + extraSettings);
      return { client, readCommitted: ours || (await isReadCommitted(client)), release };
    } catch (error) {
      await release().catch(() => undefined);
      throw error;
    }
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
    this.dataSource ??= ownDataSource(this.application, this.settings, {
      max: this.settings.poolSize + LISTENERS + MOST_PUBLISHING, // opened as they are asked for
      connectionTimeoutMillis: this.settings.connectTimeout,
      query_timeout: this.settings.statementTimeout + CLIENT_GRACE,
      keepAlive: true,
      application_name: 'nestjs-outbox',
      Client: quietClient(this.application),
    });
    return this.dataSource.initialize();
  }
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

/**
 * Statements prepared on empty tables must stay fast when there are millions of rows and no statistics: every hot
 * statement has exactly one plan without sequential and bitmap scans. Not set behind a transaction pooler
 * (`preparedStatements: false`), where settings would leak into other clients' sessions; there each statement is planned anew.
 * Nothing is found through a search_path that others may put functions and operators into.
 */
function sessionSettings(settings: StoreSettings): string {
  return `set search_path = ${PINNED_PATH}; set enable_seqscan = off; set enable_bitmapscan = off; set jit = off;
    set plan_cache_mode = force_generic_plan; set max_parallel_workers_per_gather = 0;
    set default_transaction_isolation = 'read committed'; set timezone = 'UTC'; set datestyle = 'ISO';
    set bytea_output = 'hex'; set synchronous_commit = on; set lock_timeout = 0;
    set statement_timeout = ${settings.statementTimeout};
    set idle_in_transaction_session_timeout = ${settings.statementTimeout};
    ${UNLIMITED};`;
}

/**
 * A limit of the server's, the database's or the role's would cut a session that waits for work or for a notification. Those
 * that this server does not have are left out. Each transaction of ours has limits for what it runs and for its pauses.
 */
const UNLIMITED = `select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings
      where name in ('idle_session_timeout', 'transaction_timeout')`;

async function isReadCommitted(client: PgClient): Promise<boolean> {
  const text = `select current_setting('default_transaction_isolation') = 'read committed'`;
  const { rows } = await client.query({ text, rowMode: 'array', types: RAW });
  return rows[0]?.[0] === 't';
}
