import { OutboxDispatcher, type OutboxMessage, type OutboxStore, type PublishResult } from '../../lib/index.js';
import { startApplication } from '../support/app.js';
import { smoke } from '../support/measure.js';
import { NoopTransport } from '../support/relay.js';
import { bench } from '../support/run.js';
import { TELL_EVERY, type FleetWord, type Work } from './fleet-words.js';
import { now } from './latencies.js';

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

/** Counts what the relay asks of its store. */
function counted(store: OutboxStore): Work {
  const work: Work = { fetches: 0, empty: 0, settles: 0, cpu: 0 };
  const [fetch, settle] = [store.ready.fetch.bind(store.ready), store.ready.settle.bind(store.ready)];
  store.ready.fetch = async (request) => {
    work.fetches += 1;
    const result = await fetch(request);
    if (result.messages.length === 0) work.empty += 1;
    return result;
  };
  store.ready.settle = (...given) => {
    work.settles += 1;
    return settle(...given);
  };
  return work;
}

bench('fleet-relay', async (closing) => {
  const transport = new SpanTransport();
  const application = await startApplication(
    closing,
    url,
    { transports: { default: transport }, lease: Number(lease), ...smoke({}, { publishTimeout: 1_000 }) },
    1,
  );
  const dispatcher = application.get(OutboxDispatcher);
  const work = counted(dispatcher.deps.store);
  const tell = (): void => {
    const { messages, spans } = transport;
    const { user, system } = process.cpuUsage();
    process.send?.({
      messages,
      work: { ...work, cpu: user + system },
      spans: [...spans.values()],
    } satisfies FleetWord);
    transport.spans = new Map();
  };
  const telling = setInterval(tell, TELL_EVERY);
  closing.add(() => clearInterval(telling));
  process.on('message', () => dispatcher.nudge());
  process.send?.('ready');
  await new Promise(() => undefined);
  return {};
});
