/** A relay in a process of its own: publishes by appending to a ledger file. Started by `support/fleet.ts`. */
import { openSync, writeSync } from 'node:fs';
import { DataSource } from 'typeorm';
import { systemClock } from '../../lib/dispatch/clock.js';
import { OutboxDispatcher } from '../../lib/dispatch/dispatcher.js';
import type { OutboxMessage } from '../../lib/message.js';
import { OutboxTransport, PUBLISHED, type PublishResult } from '../../lib/publish/transport.js';
import { resolveOptions } from '../../lib/resolve-options.js';
import { openStore } from '../../lib/store/open-store.js';
import { databaseOptions, type FleetSettings } from './fleet.js';

const settings = JSON.parse(process.env['FLEET'] as string) as FleetSettings;

/** One write per batch: the order in the file is the order of the publishes, across processes. */
class LedgerTransport extends OutboxTransport {
  readonly receipt = 'broker' as const;
  override readonly atomicRuns = true;
  readonly ledger = openSync(settings.ledger, 'a');

  async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    writeSync(this.ledger, batch.map(({ key, id, body }) => `${key} ${String(body)} ${id} ${process.pid}\n`).join(''));
    return batch.map(() => PUBLISHED);
  }
}

async function main(): Promise<void> {
  const dataSource = await new DataSource(databaseOptions(settings.url)).initialize();
  const transport = new LedgerTransport();
  const options = resolveOptions(
    { transports: { default: transport }, pollInterval: 100, publishTimeout: 500, lease: settings.lease },
    {},
  );
  const { database, ordering, coordination, onPublished, buckets } = options;
  const store = openStore(dataSource, { options: database, ordering, coordination, onPublished, buckets });
  const transportIds = await store.registerTransports(['default'], 'default');
  const dispatcher = new OutboxDispatcher({
    options,
    store,
    clock: systemClock,
    random: Math.random,
    hooks: {
      has: () => false,
      emit: (name, event) => {
        if (name !== 'leasesAcquired' && name !== 'circuitClosed')
          console.error(process.pid, name, JSON.stringify(event));
      },
    },
    transportIds,
    createTransports: async () => new Map([['default', transport]]),
  });
  await dispatcher.start();
  const stop = async (): Promise<void> => {
    await dispatcher.stop();
    await store.close();
    await dataSource.destroy();
    process.exit(0);
  };
  process.once('SIGTERM', () => void stop());
  process.send?.('ready');
}

void main();
