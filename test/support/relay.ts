import { inspect } from 'node:util';
import { DataSource } from 'typeorm';
import {
  type OutboxHealth,
  type OutboxOptions,
  type OutboxTransport,
  type OutboxStore,
  OutboxDispatcher,
} from '../../lib/index.js';
import { systemClock } from '../../lib/time/clock.js';
import type { RelayDependencies } from '../../lib/relay/contracts.js';
import type { NewMessage } from '../../lib/outbox-message.js';
import { healthOf } from '../../lib/observe/health.js';
import { readStats } from '../../lib/observe/stats.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { eachRole, replaced, type ROLES } from './each-role.js';
import { openStore } from './open-store.js';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import { canariesIn } from '../security/canaries.js';
import { createTestDatabase, type TestDatabase } from './databases.js';
import { newMessage, RecordedHooks, ScriptedTransport } from './scripted.js';
import type { DatabaseKind } from './services.js';

export { broken, newMessage, RecordedHooks, ScriptedTransport } from './scripted.js';

/** Of all roles: none has a name of another. */
type Methods = Omit<OutboxStore, (typeof ROLES)[number]> &
  OutboxStore['writer'] &
  OutboxStore['leases'] &
  OutboxStore['ready'] &
  OutboxStore['parked'] &
  OutboxStore['rowLocks'] &
  OutboxStore['admin'] &
  OutboxStore['cleaner'] &
  OutboxStore['setup'];

/** A store with some of its methods replaced, of whatever role. */
export function wrapped(store: OutboxStore, own: Partial<Methods>): OutboxStore {
  return replaced(
    eachRole(store, (role) => replaced(role, own)),
    own,
  );
}

/** A store that gives `health()` more than its second for a look, where the machine is slow. */
export function patient(store: OutboxStore): OutboxStore {
  const look = store.admin.stats.bind(store.admin);
  return wrapped(store, { stats: (request) => look({ ...request, within: 60_000 }) });
}

export interface RelayParts extends Partial<
  Pick<RelayDependencies, 'clock' | 'random' | 'expected' | 'leasesChanged' | 'hears'>
> {
  /** Another way to the same database: through a proxy, or with another session. */
  readonly dataSource?: DataSource;
  readonly wrapStore?: (store: OutboxStore) => OutboxStore;
}

export interface Harness {
  readonly database: TestDatabase;
  readonly dataSource: DataSource;
  readonly store: OutboxStore;
  readonly options: ResolvedOptions;
  readonly transportIds: ReadonlyMap<string, number>;
  /** Another relay process, as far as the database can tell. */
  relay(
    transports?: Record<string, OutboxTransport>,
    overrides?: Partial<ResolvedOptions>,
    parts?: RelayParts,
  ): { dispatcher: OutboxDispatcher; hooks: RecordedHooks; store: OutboxStore };
  /** What the process of this relay says. */
  health(dispatcher: OutboxDispatcher): Promise<OutboxHealth>;
  /** One transaction with these messages. */
  enqueue(messages: readonly Partial<NewMessage>[]): Promise<string[]>;
  count(table: string): Promise<number>;
  /** Canaries in what its relays told of failures, and in the errors of parked rows. */
  secretsTold(): Promise<string[]>;
  close(): Promise<void>;
}

/** A database, a store and as many relays as a test wants; what production builds, without Nest. */
export async function createHarness(
  kind: DatabaseKind,
  options: Partial<OutboxOptions> = {},
  server?: string,
): Promise<Harness> {
  const database = await createTestDatabase(kind, server);
  const dataSource = await new DataSource(database.options).initialize();
  const resolved = resolveOptions(
    {
      transports: { default: new ScriptedTransport() },
      pollInterval: 200,
      retry: { initial: 50, max: 200 },
      ...options,
    },
    {},
  );
  const open = (source: DataSource = dataSource): OutboxStore => {
    const { database: settings, ordering, coordination, onPublished, publishTimeout, buckets } = resolved;
    const tables = { options: settings, ordering, coordination, buckets };
    return openStore(source, { ...tables, onPublished, publishTimeout, errorHistory: resolved.retry.errorHistory });
  };
  const store = open();
  await store.setup.create(resolved);
  const transportIds = await store.setup.transports([...resolved.transports.keys()], resolved.defaultTransport);
  const dispatchers: { dispatcher: OutboxDispatcher; store: OutboxStore; hooks: RecordedHooks }[] = [];
  return {
    database,
    dataSource,
    store,
    options: resolved,
    transportIds,
    relay(transports = {}, overrides = {}, { dataSource: source, wrapStore, ...parts } = {}) {
      const hooks = new RecordedHooks();
      const own = open(source);
      const dispatcher = new OutboxDispatcher({
        options: { ...resolved, ...overrides },
        store: wrapStore?.(own) ?? own,
        clock: systemClock,
        random: Math.random,
        ...parts,
        hooks,
        transportIds,
        createTransports: async () => new Map(Object.entries(transports)),
      });
      dispatchers.push({ dispatcher, store: own, hooks });
      return { dispatcher, hooks, store: own };
    },
    async health(dispatcher) {
      const stats = await readStats(store, transportIds);
      return healthOf({ mode: true, relay: dispatcher.status(), transports: resolved.transports, stats });
    },
    async enqueue(messages) {
      const rows = messages.map((message) => newMessage(message, resolved.buckets));
      await dataSource.transaction((manager) =>
        store.writer.insert(transactionExecutor(manager.queryRunner as never), rows),
      );
      return rows.map(({ id }) => id);
    },
    async count(table) {
      const [row] = (await dataSource.query(`select count(*) as n from outbox_${table}`)) as { n: string }[];
      return Number(row?.n);
    },
    async secretsTold() {
      const told: unknown[] = await dataSource.query('select last_error, errors, progress from outbox_parked');
      for (const { dispatcher, hooks } of dispatchers)
        told.push(dispatcher.status(), ...hooks.events.filter(({ name }) => name !== 'published'));
      return canariesIn(inspect(told, { depth: 12, showHidden: true, maxArrayLength: null, maxStringLength: null }));
    },
    async close() {
      for (const { dispatcher, store: own } of dispatchers) {
        await dispatcher.stop();
        await own.close();
      }
      await store.close();
      await dataSource.destroy();
      await database.drop();
    },
  };
}
