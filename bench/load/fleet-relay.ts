import type { OutboxMessage } from '../../lib/message.js';
import { OutboxDispatcher } from '../../lib/index.js';
import type { PublishResult } from '../../lib/publish/transport.js';
import { startApplication } from '../support/app.js';
import { NoopTransport } from '../support/relay.js';
import { bench } from '../support/run.js';
import { now } from './latencies.js';

/** Of a bucket, when this process published of it first and last. */
export type Span = readonly [bucket: number, from: number, to: number];

/** What one relay of a fleet published so far, and since the last word from when to when of each bucket. */
export interface FleetWord {
  readonly messages: number;
  readonly spans: readonly Span[];
}

const TELL_EVERY = 50;
const [url, lease] = process.argv.slice(2) as [string, string];

/** Takes everything at once, and remembers when. */
class SpanTransport extends NoopTransport {
  messages = 0;
  spans = new Map<number, [bucket: number, from: number, to: number]>();

  override async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    const at = now();
    this.messages += batch.length;
    for (const { bucket } of batch) {
      const span = this.spans.get(bucket);
      if (span === undefined) this.spans.set(bucket, [bucket, at, at]);
      else span[2] = at;
    }
    return super.publish(batch);
  }
}

bench('fleet-relay', async (closing) => {
  const transport = new SpanTransport();
  const application = await startApplication(
    closing,
    url,
    { transports: { default: transport }, lease: Number(lease) },
    1,
  );
  const tell = (): void => {
    const { messages, spans } = transport;
    process.send?.({ messages, spans: [...spans.values()] } satisfies FleetWord);
    transport.spans = new Map();
  };
  const telling = setInterval(tell, TELL_EVERY);
  closing.add(() => clearInterval(telling));
  process.on('message', () => application.get(OutboxDispatcher).nudge());
  process.send?.('ready');
  await new Promise(() => undefined);
  return {};
});
