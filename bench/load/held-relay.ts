import type { OutboxMessage, PublishResult } from '../../lib/index.js';
import { startApplication } from '../support/app.js';
import { NoopTransport } from '../support/relay.js';
import { bench } from '../support/run.js';
import { isSampled, now } from './latencies.js';
import type { Sighting } from './relay.js';

/** What one relay published so far, from how many buckets, and when the sampled among the last of it. */
export interface Published {
  readonly messages: number;
  readonly buckets: number;
  readonly sampled: readonly Sighting[];
}

/** Milliseconds. Between processes MariaDB has nothing but polls. */
const POLL = 100;
const TELL_EVERY = 50;
const [url] = process.argv.slice(2) as [string];

/** Takes everything at once, and remembers when. */
class WatchedTransport extends NoopTransport {
  messages = 0;
  readonly buckets = new Set<number>();
  sampled: Sighting[] = [];

  override async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    const at = now();
    this.messages += batch.length;
    for (const { id, bucket } of batch) {
      this.buckets.add(bucket);
      if (isSampled(id)) this.sampled.push([id, at]);
    }
    return super.publish(batch);
  }
}

bench('held-relay', async (closing) => {
  const transport = new WatchedTransport();
  await startApplication(closing, url, { transports: { default: transport }, pollInterval: POLL });
  const telling = setInterval(() => {
    const { messages, buckets, sampled } = transport;
    process.send?.({ messages, buckets: buckets.size, sampled } satisfies Published);
    transport.sampled = [];
  }, TELL_EVERY);
  closing.add(() => clearInterval(telling));
  process.send?.('ready');
  await new Promise(() => undefined);
  return {};
});
