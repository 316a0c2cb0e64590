import { setTimeout as delay } from 'node:timers/promises';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { OutboxMessage, OutboxOptions, TransportOption, PublishResult, OutboxStore } from '../../lib/index.js';
import { systemClock } from '../../lib/time/clock.js';
import { OutboxDispatcher } from '../../lib/relay/dispatcher.js';
import type { RelayLoops } from '../../lib/relay/relay-loops.js';
import type { OutboxHooks } from '../../lib/observe/events.js';
import { OutboxTransport, PUBLISHED } from '../../lib/transports/transport.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { TypeOrm } from '../../lib/data-layers/typeorm/typeorm.js';
import { openStore } from '../../lib/nest/open-store.js';
import { timed } from './measure.js';
import type { Closing } from './run.js';

/** Takes everything at once. */
export class NoopTransport extends OutboxTransport {
  readonly receipt = 'broker' as const;
  override readonly atomicRuns = true;

  async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    return batch.map(() => PUBLISHED);
  }
}

/** Errors go to stderr; nothing else is listened to, as in production without listeners. */
const hooks: OutboxHooks = {
  emit: (name, event) => {
    if (name === 'error' || name === 'leasesLost') console.error(name, event);
  },
  has: () => false,
};

export interface BenchRelay {
  readonly store: OutboxStore;
  readonly dispatcher: OutboxDispatcher;
  close(): Promise<void>;
}

/** A relay that is built and not started, with the tables made; it is closed by the caller. */
export async function benchRelay(
  dataSource: DataSource,
  transports: Record<string, TransportOption>,
  options: Partial<OutboxOptions> = {},
): Promise<BenchRelay> {
  const resolved = resolveOptions({ transports, database: { setup: 'create' }, ...options }, {});
  const { database, ordering, coordination, onPublished, publishTimeout, buckets } = resolved;
  const tables = { options: database, ordering, coordination, buckets };
  const store = openStore(new TypeOrm(dataSource), { ...tables, onPublished, publishTimeout });
  await store.setup.create({ ...resolved, partitionedArchive: resolved.partitions.period !== undefined });
  const transportIds = await store.setup.transports(Object.keys(transports), resolved.defaultTransport);
  const dispatcher = new OutboxDispatcher({
    options: resolved,
    store,
    clock: systemClock,
    random: Math.random,
    hooks,
    transportIds,
    createTransports: async () => {
      const created = new Map<string, OutboxTransport>();
      for (const [name, definition] of resolved.transports) created.set(name, await definition.create());
      return created;
    },
  });
  return {
    store,
    dispatcher,
    async close() {
      await dispatcher.stop();
      await store.close();
    },
  };
}

/** The tables, and nothing that runs. */
export async function createTables(dataSource: DataSource): Promise<void> {
  const relay = await benchRelay(dataSource, { default: new NoopTransport() });
  await relay.close();
}

export async function connect(closing: Closing, url: string): Promise<DataSource> {
  const options: DataSourceOptions = url.startsWith('postgres')
    ? { type: 'postgres', url }
    : { type: 'mariadb', url, timezone: 'Z' };
  const dataSource = await new DataSource(options).initialize();
  closing.add(() => dataSource.destroy());
  return dataSource;
}

export interface Drained {
  readonly ms: number;
  /** CPU microseconds of this process. */
  readonly cpu: number;
  readonly rows: number;
}

/**
 * Starts the relay and waits until it has published `count` messages and the ready table is empty. Measured from its
 * first receipts on: connecting and leasing take the same few milliseconds before any backlog.
 */
export async function drain(
  dataSource: DataSource,
  relay: Pick<BenchRelay, 'dispatcher'>,
  count: number,
): Promise<Drained> {
  await relay.dispatcher.start();
  const transportRelays = relay.dispatcher.relays as readonly Partial<RelayLoops>[];
  const published = (): number =>
    transportRelays.reduce((sum, { relay: transportRelay }) => sum + (transportRelay?.counts.published ?? 0), 0);
  while (published() === 0) await delay(1);
  const before = published();
  const { ms, cpu } = await timed(async () => {
    while (published() < count) await delay(5); // a wake-up is not free
    await untilEmpty(dataSource);
  });
  return { ms, cpu, rows: count - before };
}

export async function untilEmpty(dataSource: DataSource): Promise<void> {
  while ((await dataSource.query('select 1 from outbox_ready limit 1')).length > 0) await delay(1);
}
