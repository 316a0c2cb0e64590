import { setTimeout as delay } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { OutboxService, PUBLISHED, type OutboxMessage, type PublishFailure, type PublishResult } from '../lib/index.js';
import { startApplication } from './support/app.js';
import { argument, percentile, Samples } from './support/measure.js';
import { SLOW_FLUSH, startPostgres } from './support/postgres.js';
import { NoopTransport } from './support/relay.js';
import { PAYLOAD } from './support/rows.js';
import { bench, Closing } from './support/run.js';

/**
 * What one key of a thousand that the broker refuses does to the others: from the commit's acknowledgement to their publish, at
 * 2,000 messages a second, in transactions of ten. The poison's head is tried about every second for as long as it lasts, and what
 * follows it waits behind it.
 *   npm run bench -- poison [seconds=20] [repeats=5]
 */
const seconds = argument(0, 'seconds', 20);
const repeats = argument(1, 'repeats', 5);
const KEYS = 1_000;
const POISON = `k${KEYS / 2}`;
const PER_TRANSACTION = 10;
const EVERY = 5;
const WARM_UP = 2;
const DEADLINE = 30_000;

/** `refused`: the broker says which message it is. `breaks`: whatever shares a batch with it is refused, and tried again singly. */
type Variant = 'calm' | 'refused' | 'breaks';

class PoisonedTransport extends NoopTransport {
  variant: Variant = 'calm';
  readonly published = new Map<string, number>();

  override async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    const poisoned = this.variant !== 'calm' && batch.some(({ key }) => key === POISON);
    return batch.map((message) => {
      if (poisoned && (this.variant === 'breaks' || message.key === POISON))
        return failure(batch.length === 1 || this.variant === 'refused' ? 'message' : 'collateral');
      this.published.set(message.id, performance.now());
      return PUBLISHED;
    });
  }
}

const failure = (blame: PublishFailure['blame']): PublishFailure => ({ ok: false, blame, error: new Error('refused') });

async function measure(
  parent: Closing,
  variant: Variant,
  duration: number,
): Promise<Record<'p50' | 'p99' | 'max', number>> {
  const closing = new Closing(); // the next one gets a server without this one's parked rows
  parent.add(() => closing.all());
  const server = await startPostgres(closing, SLOW_FLUSH);
  const transport = new PoisonedTransport();
  transport.variant = variant;
  const application = await startApplication(closing, server.url, {
    transports: { default: transport },
    retry: { maxAttempts: null, initial: 2_000, max: 2_000 }, // a second, on average
    logLevel: 'silent',
  });
  const dataSource = application.get(DataSource);
  const outbox = application.get(OutboxService);
  const committed = new Map<string, number>();
  const begun = performance.now();
  const measured = begun + WARM_UP * 1_000;
  const inFlight = new Set<Promise<void>>();
  const commit = async (from: number): Promise<void> => {
    const batch = Array.from({ length: PER_TRANSACTION }, (_, i) => ({
      type: 'order.placed',
      topic: 'orders',
      key: `k${(from + i) % KEYS}`,
      payload: Buffer.from(PAYLOAD),
    }));
    const ids = await dataSource.transaction((manager) => outbox.enqueue(batch, { manager }));
    const at = performance.now();
    if (at < measured) return;
    ids.forEach((id, i) => {
      if (batch[i]?.key !== POISON) committed.set(id, at);
    });
  };
  for (let n = 0; performance.now() < measured + duration * 1_000; n += 1) {
    const early = begun + n * EVERY - performance.now();
    if (early > 1) await delay(early);
    const work = commit(n * PER_TRANSACTION);
    inFlight.add(work);
    void work.finally(() => inFlight.delete(work));
    if (inFlight.size > 8) await Promise.race(inFlight);
  }
  await Promise.all(inFlight);
  const deadline = performance.now() + DEADLINE;
  while ([...committed.keys()].some((id) => !transport.published.has(id))) {
    if (performance.now() > deadline) throw new Error('Not everything that was committed was published.');
    await delay(50);
  }
  const all = [...committed].map(([id, at]) => (transport.published.get(id) as number) - at);
  await closing.all();
  return { p50: percentile(all, 50), p99: percentile(all, 99), max: Math.max(...all) };
}

bench('poison', async (closing) => {
  const samples = new Samples();
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const calm = await measure(closing, 'calm', seconds);
    const refused = await measure(closing, 'refused', seconds);
    const breaks = await measure(closing, 'breaks', seconds);
    const named = Object.entries({ calm, refused, breaks }).flatMap(([variant, { p50, p99, max }]) => [
      [`${variant}P50`, p50] as const,
      [`${variant}P99`, p99] as const,
      [`${variant}Max`, max] as const,
    ]);
    samples.add({
      ...Object.fromEntries(named),
      refusedRatio: refused.p99 / calm.p99,
      breaksRatio: breaks.p99 / calm.p99,
    });
  }
  return {
    seconds,
    repeats,
    keys: KEYS,
    messagesPerSecond: (PER_TRANSACTION * 1_000) / EVERY,
    unit: 'ms',
    ...samples.medians(),
    refusedRatioRange: samples.range('refusedRatio'),
    breaksRatioRange: samples.range('breaksRatio'),
  };
});
