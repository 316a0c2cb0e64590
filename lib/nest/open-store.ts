import type { ResolvedOptions } from '../outbox.options.js';
import { STATEMENT_TIMEOUT } from '../store/database-errors.js';
import type { SqlDatabase } from '../store/executor.js';
import { MysqlStore } from '../store/mysql/store.js';
import { checkNames, type StoreSettings } from '../store/names.js';
import type { OutboxStore } from '../store/outbox-store.js';
import { PostgresStore } from '../store/postgres/store.js';
import type { DataLayer } from '../transaction/data-layer.js';

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

/** Every data layer has the same stores. */
const STORES: Readonly<
  Record<DataLayer['dialect'], new (database: SqlDatabase, settings: StoreSettings) => OutboxStore>
> = { postgres: PostgresStore, mysql: MysqlStore };

/** @param dataLayer open: an outbox without a schema in its options uses the connection's */
export function openStore(dataLayer: DataLayer, settings: OpenStoreSettings): OutboxStore {
  const { options, statementTimeout = STATEMENT_TIMEOUT, connectTimeout = CONNECT_TIMEOUT, ...rest } = settings;
  const { errorHistory = 0, publishTimeout = PUBLISH_TIMEOUT } = settings;
  const { idleWithLocks = publishTimeout + statementTimeout + LOCK_MARGIN } = settings;
  checkNames(options);
  const Store = STORES[dataLayer.dialect];
  const complete: StoreSettings = {
    ...rest,
    errorHistory,
    prefix: options.prefix,
    schema: options.schema ?? dataLayer.defaultSchema,
    pooler: options.pooler,
    statementTimeout,
    idleWithLocks,
    connectTimeout,
  };
  return new Store(dataLayer.openDatabase(complete), complete);
}
