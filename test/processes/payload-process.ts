/** A relay with little memory, whose transport tells what it got. Started by `payload-relay.ts`. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { DataSource } from 'typeorm';
import {
  type OutboxMessage,
  type PublishResult,
  OutboxDispatcher,
  OutboxTransport,
  PUBLISHED,
} from '../../lib/index.js';
import { systemClock } from '../../lib/time/clock.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { openStore } from '../support/open-store.js';
import { databaseOptions } from './database-options.js';
import type { FleetSettings } from './fleet.js';

/** One message as it was published, and the most memory that this process has had so far. */
export interface PayloadReport {
  readonly key: string | null;
  readonly bytes: number;
  readonly digest: string;
  readonly megabytes: number;
}

const settings = JSON.parse(process.env['FLEET'] as string) as FleetSettings;

class DigestTransport extends OutboxTransport {
  readonly receipt = 'broker' as const;
  override readonly atomicRuns = true;

  async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    await new Promise((resolve) => setTimeout(resolve, 20)); // a broker takes its time: several batches are out together
    for (const { key, payload } of batch) {
      const report: PayloadReport = {
        key,
        bytes: payload?.length ?? -1,
        digest: createHash('sha1')
          .update(payload ?? '')
          .digest('hex'),
        megabytes: peak(),
      };
      process.send?.(report);
    }
    return batch.map(() => PUBLISHED);
  }
}

const dataSource = await new DataSource(databaseOptions(settings.url)).initialize();
const transport = new DigestTransport();
const options = resolveOptions({ transports: { default: transport }, ...settings.relayOptions }, {});
const { database, ordering, coordination, onPublished, publishTimeout, buckets } = options;
const tables = { options: database, ordering, coordination, buckets };
const store = openStore(dataSource, { ...tables, onPublished, publishTimeout });
const dispatcher = new OutboxDispatcher({
  options,
  store,
  clock: systemClock,
  random: Math.random,
  hooks: { has: () => false, emit: (name, event) => name === 'error' && console.error(name, JSON.stringify(event)) },
  transportIds: await store.setup.transports(['default'], 'default'),
  createTransports: async () => new Map([['default', transport]]),
});
process.once('disconnect', () => process.exit(0));
await dispatcher.start();

/** Megabytes. Of this program: `maxRSS` counts what the process had before it became this one, which is its parent's. */
function peak(): number {
  const [, kibibytes] = /^VmHWM:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Math.round(Number(kibibytes) / 1024);
}
