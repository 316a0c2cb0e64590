import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { ConnectionRole, SqlConnection, SqlDatabase } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import { PoolerWarning } from './pooler-warning.js';
import { PostgresConnection, type CheckedOut } from './postgres-connection.js';
import { listenOn } from './postgres-listener.js';
import { PostgresClients, type PostgresSource } from './postgres-clients.js';
import { askOtherEnd, ownSession, pooledSession, type Settings } from './postgres-session.js';

/** Milliseconds. Leases are locked for milliseconds; whoever waits longer meets somebody else's open transaction. */
const LEASE_LOCK_WAIT = 2_000;

/** The relay's own connections: one for each role, so that a renewal never waits for a batch. */
export class PostgresDatabase implements SqlDatabase {
  private readonly connections = new Map<ConnectionRole | number, PostgresConnection>();
  private readonly lone = new Set<PostgresConnection>();
  private readonly listeners = new Set<{ close(): Promise<void> }>();
  private readonly clients: PostgresClients;
  /** For LISTEN: past a pooler, where the options name a way. */ private readonly direct: PostgresClients;
  private readonly notice: PoolerWarning;
  /** A pooler that no process id showed. */ private handsOn = false;
  /** One that a process id showed. */ private pooled = false;

  constructor(
    source: PostgresSource,
    readonly settings: StoreSettings,
  ) {
    this.notice = new PoolerWarning(settings);
    const { pooler } = settings;
    this.clients = new PostgresClients(source, settings);
    this.direct = typeof pooler === 'string' ? new PostgresClients(source, settings, pooler) : this.clients;
  }

  connection(role: ConnectionRole): PostgresConnection {
    const asynchronous = role === 'settle' && this.settings.onPublished === 'delete';
    const lastsLater: Settings = asynchronous ? { synchronous_commit: 'off' } : {};
    return this.owned(role, role === 'lease' ? { lock_timeout: String(LEASE_LOCK_WAIT) } : lastsLater);
  }

  publishing(transport: number): PostgresConnection {
    return this.owned(transport, {}, this.settings.idleWithLocks);
  }

  isPooled(): boolean {
    return this.pooled || this.handsOn;
  }

  private owned(owner: ConnectionRole | number, extra: Settings, idleInTransaction?: number): PostgresConnection {
    const known = this.connections.get(owner);
    if (known !== undefined) return known;
    const noticed = { demoted: () => this.dropAll(), pooled: () => this.noticePooler() };
    const open = (): Promise<CheckedOut> => this.checkOut(extra);
    const connection = new PostgresConnection(open, noticed, idleInTransaction, this.settings.closeIdleAfter);
    this.connections.set(owner, connection);
    return connection;
  }

  /** Past a pooler, where the options name a way: a lock of its session would be another's. */
  alone<T>(work: (session: SqlConnection) => Promise<T>): Promise<T> {
    const open = async (): Promise<CheckedOut> => {
      const checkedOut = await this.checkOut({}, this.direct);
      if (!checkedOut.pooled) return checkedOut;
      await checkedOut.release();
      throw pooled();
    };
    const session = new PostgresConnection(open, { demoted: () => this.dropAll(), pooled: () => undefined });
    this.lone.add(session);
    return session.alone(work).finally(() => this.lone.delete(session));
  }

  private dropAll(): void {
    this.connections.forEach((connection) => void connection.drop());
  }

  /** One that hands out the server's process ids. Its listener hears nothing, and is not told so: its silence is noticed. */
  private noticePooler(): void {
    if (this.handsOn || this.settings.pooler) return;
    this.handsOn = true;
    this.notice.tell(true);
    this.dropAll();
    this.listeners.forEach((listener) => void listener.close());
  }

  async listen(
    channel: string,
    onNotify: (payload: string) => void,
    onLost: (error: unknown) => void,
  ): Promise<{ close(): Promise<void> } | undefined> {
    const connection = await this.checkOut({}, this.direct);
    if (connection.pooled && this.settings.wakeUp !== 'notify') {
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
    this.clients.closed = this.direct.closed = true;
    const open = [...this.connections.values(), ...this.lone, ...this.listeners];
    this.listeners.clear();
    await Promise.all(open.map((connection) => connection.close()));
  }

  /** A client of its own, with our settings. */
  private async checkOut(extra: Settings, clients = this.clients): Promise<CheckedOut> {
    const { client, release } = await clients.take();
    try {
      const otherEnd = await askOtherEnd(client);
      const isShared = clients === this.clients;
      const isToldOf = this.handsOn || Boolean(this.settings.pooler);
      const pooled = otherEnd.isPooler || (isShared && isToldOf);
      if (pooled) {
        this.pooled ||= isShared;
        this.notice.tell(isShared);
      }
      const session = pooled ? pooledSession(this.settings, extra, otherEnd) : ownSession(this.settings, extra);
      if (!pooled) await client.query(session.atStart);
      return { client, pooled, inTransaction: session.inTransaction, release };
    } catch (error) {
      await release().catch(() => undefined);
      throw error;
    }
  }
}

const pooled = (): OutboxConfigurationError =>
  new OutboxConfigurationError(
    'UNSUPPORTED_DATABASE',
    'Behind a pooler a session is handed to others, and a lock with it.',
    { hint: 'Give database.pooler the address of PostgreSQL itself.' },
  );
