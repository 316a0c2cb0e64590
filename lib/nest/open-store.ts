import { isThenable } from '../message/is-thenable.js';
import type { EventStream } from '../observe/event-stream.js';
import { misconfigured } from '../outbox.errors.js';
import type { OpenStore, ResolvedOptions } from '../outbox.options.js';
import { STATEMENT_TIMEOUT } from '../store/database-errors.js';
import type { SqlDatabase } from '../store/executor.js';
import { MysqlStore } from '../store/mysql/store.js';
import { checkNames, type StoreSettings } from '../store/names.js';
import type { OutboxStore } from '../store/outbox-store.js';
import { PostgresStore } from '../store/postgres/store.js';
import { within, type Clock } from '../time/clock.js';
import type { DataLayer } from '../transaction/data-layer.js';
import { isMarked } from './enqueue-only.js';

/** Milliseconds for the store's connections: a database that fell silent must not keep the application from ending. */
const CLOSE_TIMEOUT = 1_000;
/** Milliseconds. A hundred processes that only enqueue are not to keep two hundred connections. */
const CLOSE_IDLE_AFTER = 5_000;
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

/** The application's own store, or one on connections of its own. Nothing is asked yet. */
export function storeOf(dataLayer: DataLayer, options: ResolvedOptions, events: EventStream): OutboxStore {
  if (options.store !== undefined) {
    return refusePromise(options.store(dataLayer.source as Parameters<OpenStore>[0], options));
  }
  const closeIdleAfter = options.relay === true ? undefined : CLOSE_IDLE_AFTER;
  const warn = (text: string): void => events.emit('warning', { text });
  return openStore(dataLayer, { ...storeSettings(options), closeIdleAfter, warn });
}

export function storeSettings(options: ResolvedOptions): OpenStoreSettings {
  const { database, buckets, ordering, coordination, onPublished, publishTimeout, retry, wakeUp } = options;
  const { errorHistory } = retry;
  return { options: database, buckets, ordering, coordination, onPublished, publishTimeout, errorHistory, wakeUp };
}

export async function closeInTime(clock: Clock, store: OutboxStore): Promise<void> {
  await within(
    clock,
    CLOSE_TIMEOUT,
    Promise.resolve(store.close()).catch(() => {}),
  );
}

function refusePromise(store: OutboxStore): OutboxStore {
  if (!isThenable(store)) return store;
  const hint = 'Open what takes time in its check() or create(), or make the options with forRootAsync().';
  misconfigured('store: it returned a Promise; must be a store.', hint);
}

/** @returns the numbers of the transports */
export async function prepareStore(
  store: OutboxStore,
  options: ResolvedOptions,
  events: EventStream,
): Promise<ReadonlyMap<string, number>> {
  if (options.wakeUp === 'notify' && store.notify === undefined) {
    misconfigured("wakeUp: 'notify' needs PostgreSQL.", "Leave it out, or say 'poll'.");
  }
  if (typeof options.database.pooler === 'string' && store.listen === undefined) {
    const hint = 'Leave it out: where nothing can be listened to, the relay polls.';
    misconfigured('database.pooler with an address needs PostgreSQL.', hint);
  }
  const partitionedArchive = options.partitions.period !== undefined;
  if (options.database.setup === 'create') await store.setup.create({ ...options, partitionedArchive });
  if (options.database.setup === 'check') await store.setup.check(options);
  const names = isMarked() ? [] : [...options.transports.keys()];
  const known = await store.setup.transports(names, options.defaultTransport);
  const ofTransports = [...options.transports.values()].flatMap(({ warnings = [] }) => warnings);
  for (const text of [...((await store.diagnose?.ask('warnings')) ?? []), ...ofTransports])
    events.emit('warning', { text });
  return new Map([...known].filter(([name]) => options.transports.has(name)));
}
