import { fork } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { DataSource } from 'typeorm';
import { OutboxService, PUBLISHED, type OutboxMessage, type PublishResult } from '../lib/index.js';
import { OrderPlaced, startApplication } from './support/app.js';
import { argument, percentile, round, Samples } from './support/measure.js';
import { SLOW_FLUSH, startPostgres } from './support/postgres.js';
import { NoopTransport } from './support/relay.js';
import { bench, Closing } from './support/run.js';

/**
 * From a commit's acknowledgement to the publish of its message, at some 50 commits a second (a flush takes 0.8 ms): with the
 * relay in the process that commits, and in another one.
 *   npm run bench -- latency [messages=1000] [repeats=5]
 *
 * The clock is the machine's monotonic one, which all its processes share.
 */
const WARM_UP = 50;
const DEADLINE = 30_000;
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

class Timing extends NoopTransport {
  constructor(readonly seen: (ids: readonly string[], at: number) => void) {
    super();
  }
  override async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    const at = now();
    this.seen(
      batch.map(({ id }) => id),
      at,
    );
    return batch.map(() => PUBLISHED);
  }
}

/** Commits and sightings, which may come in either order. */
class Latencies {
  /** @internal */ readonly committed = new Map<string, number>();
  /** @internal */ readonly published = new Map<string, number>();

  readonly seen = (ids: readonly string[], at: number): void => {
    for (const id of ids) this.published.set(id, at);
  };

  async measure(
    dataSource: DataSource,
    outbox: OutboxService,
    count: number,
  ): Promise<{ p50: number; p99: number; max: number }> {
    this.committed.clear();
    for (let n = 0; n < count; n += 1) {
      await delay(10 + Math.random() * 20);
      const id = await dataSource.transaction((manager) => outbox.enqueue(new OrderPlaced(`order-${n}`), { manager }));
      this.committed.set(id, now());
    }
    const deadline = now() + DEADLINE;
    while ([...this.committed.keys()].some((id) => !this.published.has(id))) {
      if (now() > deadline) throw new Error('Not everything that was committed was published.');
      await delay(10);
    }
    const all = [...this.committed].map(([id, at]) => (this.published.get(id) as number) - at);
    return { p50: percentile(all, 50), p99: percentile(all, 99), max: Math.max(...all) };
  }
}

type Start = (
  closing: Closing,
  url: string,
  latencies: Latencies,
) => Promise<{ dataSource: DataSource; outbox: OutboxService }>;

const inOneProcess: Start = async (closing, url, latencies) => {
  const application = await startApplication(closing, url, { transports: { default: new Timing(latencies.seen) } });
  return { dataSource: application.get(DataSource), outbox: application.get(OutboxService) };
};

const inTwoProcesses: Start = async (closing, url, latencies) => {
  const tools = fileURLToPath(new URL('../tools/typescript.mjs', import.meta.url));
  const relay = fork(fileURLToPath(import.meta.url), [RELAY, url], { execArgv: ['--import', tools] });
  closing.add(() => relay.kill('SIGTERM'));
  await new Promise<void>((resolve, reject) => {
    relay.once('exit', () => reject(new Error('The relay process ended.')));
    relay.once('error', reject);
    relay.on('message', (message: 'ready' | [string[], number]) => {
      if (message === 'ready') resolve();
      else latencies.seen(...message);
    });
  });
  const application = await startApplication(closing, url, {
    transports: { default: new NoopTransport() },
    relay: false,
  });
  return { dataSource: application.get(DataSource), outbox: application.get(OutboxService) };
};

async function measure(start: Start, count: number, repeats: number, parent: Closing): Promise<Record<string, number>> {
  const closing = new Closing(); // the first application must not run beside the second
  parent.add(() => closing.all());
  const server = await startPostgres(closing, SLOW_FLUSH);
  const latencies = new Latencies();
  const { dataSource, outbox } = await start(closing, server.url, latencies);
  await latencies.measure(dataSource, outbox, Math.min(count, WARM_UP));
  const samples = new Samples();
  for (let repeat = 0; repeat < repeats; repeat += 1) samples.add(await latencies.measure(dataSource, outbox, count));
  await closing.all();
  return { ...samples.medians(), worstP99: samples.range('p99')[1] };
}

/** The other process: ends when the one that measures does. */
async function relayProcess(url: string, closing: Closing): Promise<Record<string, unknown>> {
  await startApplication(closing, url, { transports: { default: new Timing((ids, at) => process.send?.([ids, at])) } });
  process.send?.('ready');
  await new Promise<void>((resolve) => process.once('disconnect', resolve));
  return {};
}

const RELAY = 'relay';
if (process.argv[2] === RELAY) bench(RELAY, (closing) => relayProcess(process.argv[3] as string, closing));
else {
  const messages = argument(0, 'messages', 1_000);
  const repeats = argument(1, 'repeats', 5);
  bench('latency', async (closing) => {
    const oneProcess = await measure(inOneProcess, messages, repeats, closing);
    const twoProcesses = await measure(inTwoProcesses, messages, repeats, closing);
    return { messages, repeats, commitsPerSecond: round(1_000 / 20), unit: 'ms', oneProcess, twoProcesses };
  });
}
