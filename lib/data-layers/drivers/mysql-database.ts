import { capabilitiesOf, PLAIN, type TransactionBounds } from '../../store/mysql/capabilities.js';
import type { StoreSettings } from '../../store/names.js';
import type { ConnectionRole, SqlConnection, SqlDatabase } from '../../store/executor.js';
import { MysqlConnection, query, type MysqlClient, type MysqlSession } from './mysql-connection.js';
import { MysqlClients, CLIENT_GRACE, type MysqlSource } from './mysql-clients.js';

/** Row locks of ours are held for milliseconds; whoever waits longer than this meets somebody else's open transaction. */
const ROW_LOCK_WAIT = 2_000;
/** The relay's own connections: one for each role, so that a renewal never waits for a batch. */
export class MysqlDatabase implements SqlDatabase {
  private readonly connections = new Map<ConnectionRole | number, MysqlConnection>();
  private readonly lone = new Set<MysqlConnection>();
  private readonly clients: MysqlClients;

  constructor(
    source: MysqlSource | Promise<MysqlSource>,
    readonly settings: StoreSettings,
  ) {
    this.clients = new MysqlClients(source, settings);
  }

  publishing(transport: number): MysqlConnection {
    return this.connection(transport);
  }

  connection(owner: ConnectionRole | number): MysqlConnection {
    const connection =
      this.connections.get(owner) ?? this.connect(typeof owner === 'number', this.settings.closeIdleAfter);
    this.connections.set(owner, connection);
    return connection;
  }

  private connect(isPublishing: boolean, closeIdleAfter?: number): MysqlConnection {
    const patience = this.settings.statementTimeout + CLIENT_GRACE;
    const dropAll = (): void => this.connections.forEach((each) => void each.drop());
    return new MysqlConnection(() => this.checkOut(isPublishing), patience, dropAll, closeIdleAfter);
  }

  alone<T>(work: (session: SqlConnection) => Promise<T>): Promise<T> {
    const session = this.connect(false);
    this.lone.add(session);
    return session.alone(work).finally(() => this.lone.delete(session));
  }

  async close(): Promise<void> {
    this.clients.closed = true;
    await Promise.all([...this.connections.values(), ...this.lone].map((connection) => connection.close()));
  }

  /** A connection of our own with our session settings. */
  private async checkOut(isPublishing: boolean): Promise<MysqlSession> {
    const client = await this.clients.take();
    try {
      return { client, bounds: await setSession(client, this.settings, isPublishing) };
    } catch (error) {
      client.destroy();
      throw error;
    }
  }
}

/** Statements mean the same, and touch as many rows, whatever the server gives to all sessions. */
const MEANING = [
  'autocommit = 1',
  `time_zone = '+00:00'`,
  `sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'`,
  'completion_type = 0', // a transaction that ends begins no other
  'sql_safe_updates = 0',
  'sql_select_limit = 18446744073709551615',
  'sql_big_selects = 1', // and with it `max_join_size`
];

/**
 * @param holds row locks, while a broker is at work
 * @returns what bounds a transaction of the session
 */
async function setSession(client: MysqlClient, settings: StoreSettings, holds: boolean): Promise<TransactionBounds> {
  const timeout = settings.connectTimeout;
  const [[version]] = (await query(client, 'select version()', [], timeout)) as [[string]];
  const lockWait = Math.ceil(Math.min(ROW_LOCK_WAIT, settings.statementTimeout) / 1000);
  // Under REPEATABLE READ, the default, gap locks of the relay cost the writers 95 % of their throughput.
  await query(client, 'set session transaction isolation level read committed, read write', [], timeout);
  const server = capabilitiesOf(version);
  const bounds = holds ? PLAIN : server.transaction(settings.statementTimeout);
  const idle = holds ? settings.idleWithLocks : settings.statementTimeout;
  const variables = [
    ...MEANING,
    ...server.meaning,
    `innodb_lock_wait_timeout = ${lockWait}`,
    `lock_wait_timeout = ${Math.ceil(settings.statementTimeout / 1000)}`,
    server.statementTimeout(settings.statementTimeout),
    ...server.idle,
    ...(bounds === PLAIN ? [server.idleTransactionTimeout(idle)] : []), // of two for one variable the last one holds
    ...(server.freshStatistics === undefined ? [] : [server.freshStatistics]),
  ];
  await query(client, `set session ${variables.join(', ')}`, [], timeout);
  return bounds;
}
