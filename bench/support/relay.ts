import { DataSource, type DataSourceOptions } from 'typeorm';
import { systemClock } from '../../lib/dispatch/clock.js';
import { OutboxDispatcher } from '../../lib/dispatch/dispatcher.js';
import type { OutboxMessage } from '../../lib/message.js';
import type { OutboxHooks } from '../../lib/observe/events.js';
import type { OutboxOptions } from '../../lib/outbox.options.js';
import { OutboxTransport, PUBLISHED, type PublishContext, type PublishResult } from '../../lib/publish/transport.js';
import { resolveOptions } from '../../lib/resolve-options.js';
import { openStore } from '../../lib/store/open-store.js';
import type { OutboxStore } from '../../lib/store/outbox-store.js';

/** Takes everything at once; `after` is called with the running total. */
export class NoopTransport extends OutboxTransport {
  readonly receipt = 'broker' as const;
  override readonly atomicRuns = true;
  count = 0;
  onBatch: (batch: readonly OutboxMessage[]) => void = () => undefined;

  async publish(batch: readonly OutboxMessage[], _context: PublishContext): Promise<readonly PublishResult[]> {
    this.count += batch.length;
    this.onBatch(batch);
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

export async function benchRelay(dataSource: DataSource, transports: Record<string, OutboxTransport>, options: Partial<OutboxOptions> = {}): Promise<BenchRelay> {
  const resolved = resolveOptions({ transports, database: { setup: 'create' }, ...options }, {});
  const { database, ordering, coordination, onPublished, buckets } = resolved;
  const store = openStore(dataSource, { options: database, ordering, coordination, onPublished, buckets });
  await store.create(resolved);
  const transportIds = await store.registerTransports(Object.keys(transports), resolved.defaultTransport);
  const dispatcher = new OutboxDispatcher({
    options: resolved,
    store,
    clock: systemClock,
    random: Math.random,
    hooks,
    transportIds,
    createTransports: async () => new Map(Object.entries(transports)),
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

export function connect(url: string): Promise<DataSource> {
  const options: DataSourceOptions = url.startsWith('postgres') ? { type: 'postgres', url } : { type: 'mariadb', url, timezone: 'Z' };
  return new DataSource(options).initialize();
}

/** Resolves once the transport has taken `count` messages and the ready table is empty. */
export async function drained(dataSource: DataSource, transport: NoopTransport, count: number): Promise<void> {
  const from = transport.count;
  await new Promise<void>((resolve) => {
    const look = (): void => {
      if (transport.count - from >= count) resolve();
    };
    transport.onBatch = look;
    look();
  });
  for (;;) {
    const [row] = (await dataSource.query('select 1 from outbox_ready limit 1')) as unknown[];
    if (row === undefined) return;
  }
}
