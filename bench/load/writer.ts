import { setTimeout as delay } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { OutboxService } from '../../lib/index.js';
import { startApplication } from '../support/app.js';
import { NoopTransport } from '../support/relay.js';
import { PAYLOAD } from '../support/rows.js';
import { bench } from '../support/run.js';
import { isSampled, now } from './latencies.js';
import type { Sighting } from './relay.js';

/** How many messages were committed so far, and of the sampled among the last of them, when. */
export interface Committed {
  readonly messages: number;
  readonly sampled: readonly Sighting[];
}

const WORKERS = 8;
const PER_TRANSACTION = 10;
const KEYS = 10_000;
const TELL_EVERY = 200;

const [url, topic, rateText] = process.argv.slice(2) as [string, string, string];
const every = (PER_TRANSACTION / Number(rateText)) * 1_000;

bench('load-writer', async (closing) => {
  const application = await startApplication(closing, url, {
    transports: { default: new NoopTransport() },
    relay: false,
  });
  const dataSource = application.get(DataSource);
  const outbox = application.get(OutboxService);
  let messages = 0;
  let sampled: Sighting[] = [];
  let stopped = false;
  const transaction = async (number: number): Promise<void> => {
    const batch = Array.from({ length: PER_TRANSACTION }, (_, index) => ({
      type: 'order.placed',
      topic,
      key: `k${(number * PER_TRANSACTION + index) % KEYS}`,
      payload: Buffer.from(PAYLOAD),
    }));
    const ids = await dataSource.transaction((manager) => outbox.enqueue(batch, { manager }));
    const at = now();
    messages += ids.length;
    for (const id of ids) if (isSampled(id)) sampled.push([id, at]);
  };
  const tell = (): void => {
    process.send?.({ messages, sampled } satisfies Committed);
    sampled = [];
  };
  const telling = setInterval(tell, TELL_EVERY);
  closing.add(() => clearInterval(telling));

  // Transaction n begins at its own time, however late the one before it was: a load that does not wait for its victim.
  const begun = now();
  let next = 0;
  const worker = async (): Promise<void> => {
    while (!stopped) {
      const number = next++;
      const early = begun + number * every - now();
      if (early > 1) await delay(early);
      await transaction(number);
    }
  };
  process.once('message', () => (stopped = true));
  process.send?.('ready');
  await Promise.all(Array.from({ length: WORKERS }, worker));
  tell();
  process.disconnect?.();
  return {};
});
