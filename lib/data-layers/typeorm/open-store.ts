import type { DataSource } from 'typeorm';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { ResolvedOptions } from '../../outbox.options.js';
import { openMysqlDatabase } from './mysql.js';
import { openPostgresDatabase } from './postgres.js';
import { MysqlStore } from '../../store/mysql/store.js';
import type { OutboxStore } from '../../store/outbox-store.js';
import { PostgresStore } from '../../store/postgres/store.js';
import { STATEMENT_TIMEOUT } from '../../store/database-errors.js';
import { checkNames, type StoreSettings } from '../../store/names.js';

const CONNECT_TIMEOUT = 10_000;
/** What the option is when nobody says anything else. */
const PUBLISH_TIMEOUT = 10_000;
/** Milliseconds on top of what a batch may take: for tearing a connection down, and for a busy process. */
const LOCK_MARGIN = 10_000;

export interface OpenStoreSettings {
  readonly options: ResolvedOptions['database'];
  readonly buckets: number;
  readonly ordering: StoreSettings['ordering'];
  readonly coordination: StoreSettings['coordination'];
  readonly onPublished: StoreSettings['onPublished'];
  readonly wakeUp?: StoreSettings['wakeUp'];
  readonly warn?: StoreSettings['warn'];
  readonly errorHistory?: number;
  readonly statementTimeout?: number;
  readonly connectTimeout?: number;
  readonly publishTimeout?: number;
  readonly closeIdleAfter?: number | undefined;
  /** Default: a publish, a read of large payloads before it, and some more. */
  readonly idleWithLocks?: number;
}

/** What a kind of database can do, and how its store is opened. The only place that asks for a DataSource's type. */
export interface DatabaseKind {
  readonly dialect: 'postgres' | 'mysql';
  /** Reads come with a snapshot that proves what can still appear (otherwise the store has `probe`). */
  readonly snapshots: boolean;
  /** LISTEN and NOTIFY. */
  readonly notifications: boolean;
  open(dataSource: DataSource, settings: StoreSettings): OutboxStore;
}

const POSTGRES: DatabaseKind = {
  dialect: 'postgres',
  snapshots: true,
  notifications: true,
  open: (dataSource, settings) => new PostgresStore(openPostgresDatabase(dataSource, settings), settings),
};
const MYSQL: DatabaseKind = {
  dialect: 'mysql',
  snapshots: false,
  notifications: false,
  open: (dataSource, settings) => new MysqlStore(openMysqlDatabase(dataSource, settings), settings),
};
const KINDS: Readonly<Record<string, DatabaseKind>> = { postgres: POSTGRES, mysql: MYSQL, mariadb: MYSQL };

export function databaseKind(dataSource: DataSource): DatabaseKind {
  const { type } = dataSource.options;
  const kind = KINDS[type];
  if (kind !== undefined) return kind;
  throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', `A DataSource of type ${type} cannot hold an outbox.`, {
    hint: `Use one of: ${Object.keys(KINDS).join(', ')}.`,
  });
}

/** @param dataSource initialized: an outbox without a schema in its options uses the connection's. */
export function openStore(dataSource: DataSource, settings: OpenStoreSettings): OutboxStore {
  const { options, statementTimeout = STATEMENT_TIMEOUT, connectTimeout = CONNECT_TIMEOUT, ...rest } = settings;
  const { errorHistory = 0, publishTimeout = PUBLISH_TIMEOUT } = settings;
  const { idleWithLocks = publishTimeout + statementTimeout + LOCK_MARGIN } = settings;
  checkNames(options);
  const kind = databaseKind(dataSource);
  return kind.open(dataSource, {
    ...rest,
    errorHistory,
    prefix: options.prefix,
    schema: options.schema ?? connectionSchema(dataSource),
    poolSize: options.poolSize,
    preparedStatements: options.preparedStatements,
    listenUrl: options.listenUrl,
    statementTimeout,
    idleWithLocks,
    connectTimeout,
  });
}

/**
 * TypeORM asks the server for both when it connects. It is quoted wherever it stands, so it may be any name; but a `?` in a
 * statement is a parameter.
 */
export function connectionSchema(dataSource: DataSource): string | undefined {
  const { schema, database } = dataSource.driver;
  const name = (databaseKind(dataSource).dialect === 'postgres' ? schema : database) ?? undefined;
  if (name?.includes('?') !== true) return name;
  throw new OutboxConfigurationError('INVALID_OPTIONS', `The connection's schema is ${JSON.stringify(name)}.`, {
    hint: 'A name with ? cannot hold an outbox: set database.schema to another one.',
  });
}
