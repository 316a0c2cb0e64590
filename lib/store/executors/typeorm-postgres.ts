import type { DataSource } from 'typeorm';
import { systemClock, within } from '../../dispatch/clock.js';
import { MOST_PUBLISHING, ownDataSource } from './own-data-source.js';
import { StoreClosed, type ConnectionRole, type SqlDatabase } from './executor.js';
import type { StoreSettings } from '../schema/names.js';
import { PoolerNotice } from './pooler-notice.js';
import { PostgresConnection, type CheckedOut, type PgClient } from './postgres-connection.js';
import { listenOn } from './postgres-listener.js';
import { askOtherEnd, ownSession, pooledSession, type Settings } from './postgres-session.js';

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
  /** @internal */ readonly notice: PoolerNotice;
  /** @internal A pooler that no process id showed. */ handsOn = false;

  constructor(
    readonly application: DataSource,
    readonly settings: StoreSettings,
  ) {
    this.notice = new PoolerNotice(settings);
  }

  connection(role: ConnectionRole): PostgresConnection {
    const owner = SHARED[this.settings.poolSize]?.[role] ?? role;
    let connection = this.connections.get(owner);
    if (connection === undefined) {
      const asynchronous = owner === 'settle' && this.settings.onPublished === 'delete';
      const lastsLater: Settings = asynchronous ? { synchronous_commit: 'off' } : {};
      connection = this.connect(owner === 'lease' ? { lock_timeout: String(LEASE_LOCK_WAIT) } : lastsLater);
      this.connections.set(owner, connection);
    }
    return connection;
  }

  publishing(transport: number): PostgresConnection {
    let connection = this.connections.get(transport);
    if (connection === undefined) {
      connection = this.connect({}, this.settings.idleWithLocks);
      this.connections.set(transport, connection);
    }
    return connection;
  }

  /** @internal */ connect(extra: Settings, idleInTransaction?: number): PostgresConnection {
    return new PostgresConnection(
      () => this.checkOut(extra),
      { demoted: () => this.dropAll(), pooled: () => this.noticePooler() },
      idleInTransaction,
      this.settings.closeIdleAfter,
    );
  }

  /** @internal */ dropAll(): void {
    this.connections.forEach((connection) => void connection.drop());
  }

  /** @internal One that hands out the server's process ids. Its listener hears nothing, and is not told so: its silence is noticed. */
  noticePooler(): void {
    if (this.handsOn || !this.settings.preparedStatements) return;
    this.handsOn = true;
    this.notice.tell();
    this.dropAll();
    this.listeners.forEach((listener) => void listener.close());
  }

  async listen(
    channel: string,
    onNotify: (payload: string) => void,
    onLost: (error: unknown) => void,
  ): Promise<{ close(): Promise<void> } | undefined> {
    const connection = await this.checkOut({});
    if (connection.behindPooler && this.settings.wakeUp !== 'notify') {
      await connection.release(); // LISTEN would succeed, in a session that the pooler gives to others
      return undefined;
    }
    const listener = await listenOn(connection, channel, onNotify, (error) => {
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

  /** @internal A client of its own, with our settings. */
  async checkOut(extra: Settings): Promise<CheckedOut & { behindPooler: boolean }> {
    const runner = (await this.open()).createQueryRunner('master');
    const client = (await runner.connect()) as PgClient;
    const release = async (): Promise<void> => {
      // Ended first: our session settings must never reach another borrower, a hung statement must not be waited for, and
      // who does not answer us does not answer the next one.
      await goodbye(client);
      await runner.release();
    };
    try {
      const otherEnd = await askOtherEnd(client);
      const behindPooler = otherEnd.isPooler || this.handsOn;
      if (behindPooler) this.notice.tell();
      const pooled = behindPooler || !this.settings.preparedStatements;
      const session = pooled ? pooledSession(this.settings, extra, otherEnd) : ownSession(this.settings, extra);
      if (!pooled) await client.query(session.atStart);
      return { client, pooled, behindPooler, inTransaction: session.inTransaction, release };
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
