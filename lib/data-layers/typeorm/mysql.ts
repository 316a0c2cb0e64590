import type { DataSource } from 'typeorm';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { capabilitiesOf, PLAIN, type TransactionBounds } from '../../store/mysql/capabilities.js';
import type { StoreSettings } from '../../store/names.js';
import { StoreClosed, type ConnectionRole, type SqlConnection, type SqlDatabase } from '../../store/executor.js';
import { systemClock, within } from '../../time/clock.js';
import { MysqlConnection, query, type MysqlClient, type MysqlSession } from '../drivers/mysql-connection.js';
import { once } from '../drivers/once.js';
import { lost } from '../drivers/own-connection.js';
import { MOST_PUBLISHING, ownDataSource } from './own-data-source.js';

/** How much longer than the server's statement timeout the client waits before it drops the connection. */
const CLIENT_GRACE = 2_000;
/** Row locks of ours are held for milliseconds; whoever waits longer than this meets somebody else's open transaction. */
const ROW_LOCK_WAIT = 2_000;
/** Sessions for one piece of work: the maintainer of partitions has one. */
const LONE = 1;

/** One for each role, so that a renewal never waits for a batch. */
const ROLES = 4;

export function openMysqlDatabase(application: DataSource, settings: StoreSettings): SqlDatabase {
  return new TypeOrmMysqlDatabase(application, settings);
}

class TypeOrmMysqlDatabase implements SqlDatabase {
  private readonly connections = new Map<ConnectionRole | number, MysqlConnection>();
  private readonly lone = new Set<MysqlConnection>();
  private opening: Promise<DataSource> | undefined;
  private closed = false;

  constructor(
    readonly application: DataSource,
    readonly settings: StoreSettings,
  ) {}

  connection(role: ConnectionRole): MysqlConnection {
    return this.owned(role);
  }

  publishing(transport: number): MysqlConnection {
    return this.owned(transport);
  }

  private owned(owner: ConnectionRole | number): MysqlConnection {
    let connection = this.connections.get(owner);
    if (connection === undefined) {
      connection = new MysqlConnection(
        () => this.checkOut(typeof owner === 'number' ? 'publishing' : 'statements'),
        this.settings.statementTimeout + CLIENT_GRACE,
        () => this.connections.forEach((each) => void each.drop()),
        this.settings.closeIdleAfter,
      );
      this.connections.set(owner, connection);
    }
    return connection;
  }

  async alone<T>(work: (session: SqlConnection) => Promise<T>): Promise<T> {
    const open = once(() => this.checkOut('statements'));
    const dropAll = (): void => this.connections.forEach((each) => void each.drop());
    const session = new MysqlConnection(open, this.settings.statementTimeout + CLIENT_GRACE, dropAll);
    this.lone.add(session);
    try {
      return await work(session);
    } finally {
      this.lone.delete(session);
      await session.close();
    }
  }

  async close(): Promise<void> {
    this.closed = true;
    await Promise.all([...this.connections.values(), ...this.lone].map((connection) => connection.close()));
    const dataSource = await this.opening?.catch(() => undefined);
    if (dataSource?.isInitialized) await dataSource.destroy();
  }

  /** A connection of our own with our session settings; destroyed after use, never handed back with them. */
  private async checkOut(use: Use): Promise<MysqlSession> {
    const runner = (await this.open()).createQueryRunner('master');
    const client = (await runner.connect()) as MysqlClient;
    try {
      client.on('error', () => undefined); // the statement in hand fails by itself; without one nobody is interested
      return { client, bounds: await setSession(client, this.settings, use) };
    } catch (error) {
      client.destroy();
      throw error;
    }
  }

  private open(): Promise<DataSource> {
    if (this.closed) return Promise.reject(new StoreClosed());
    return (this.opening ??= openDataSource(this.application, this.settings).catch((error: unknown) => {
      this.opening = undefined;
      throw error;
    }));
  }
}

/** The application's driver options that would change what we read or send are overruled one by one. */
async function openDataSource(application: DataSource, settings: StoreSettings): Promise<DataSource> {
  const dataSource = ownDataSource(application, settings, {
    connectionLimit: ROLES + LONE + MOST_PUBLISHING, // opened as they are asked for
    connectTimeout: settings.connectTimeout,
    charset: 'utf8mb4',
    timezone: 'Z',
    supportBigNumbers: true,
    bigNumberStrings: true,
    dateStrings: true,
    decimalNumbers: false,
    typeCast: true,
    ...{ rowsAsArray: false, nestTables: false, namedPlaceholders: false, multipleStatements: false },
    queryFormat: undefined,
    flags: ['FOUND_ROWS'], // "affected" counts rows that matched, also when nothing changed in them
    enableKeepAlive: true,
    waitForConnections: true,
  });
  // TypeORM asks for the version without a limit of its own: a server that dies after the login would be waited for without end.
  const opening = dataSource.initialize();
  if (await within(systemClock, settings.connectTimeout + CLIENT_GRACE, opening)) return dataSource;
  opening.then(() => dataSource.destroy()).catch(() => undefined);
  throw lost();
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

/** What a session is for: statements one after the other, or one that holds row locks while a broker is at work. */
type Use = 'statements' | 'publishing';

/** @returns what bounds a transaction of the session */
async function setSession(client: MysqlClient, settings: StoreSettings, use: Use): Promise<TransactionBounds> {
  if (typeof client.query !== 'function' || !('execute' in client)) {
    throw new OutboxConfigurationError('MISSING_PEER', 'The DataSource does not use the driver mysql2.', {
      hint: 'Run `npm install mysql2`.',
    });
  }
  const timeout = settings.connectTimeout;
  const [[version]] = (await query(client, 'select version()', [], timeout)) as [[string]];
  const lockWait = Math.ceil(Math.min(ROW_LOCK_WAIT, settings.statementTimeout) / 1000);
  // Under REPEATABLE READ, the default, gap locks of the relay cost the writers 95 % of their throughput.
  await query(client, 'set session transaction isolation level read committed, read write', [], timeout);
  const server = capabilitiesOf(version);
  const isPublishing = use === 'publishing';
  const bounds = isPublishing ? PLAIN : server.transaction(settings.statementTimeout);
  const idle = isPublishing ? settings.idleWithLocks : settings.statementTimeout;
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
