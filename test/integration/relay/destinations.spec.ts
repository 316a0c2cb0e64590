import type { OutboxMessage, PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { readStats } from '../../../lib/observe/stats.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnEach, FEWER_DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

/** Some topics are missing. */
class MissingTopics extends ScriptedTransport {
  readonly missing = new Set<string>();

  constructor(
    missing: readonly string[] = [],
    readonly certain = true,
  ) {
    super();
    for (const topic of missing) this.missing.add(topic);
    this.behave = ({ topic }) => (this.missing.has(topic) ? this.refuse(topic) : PUBLISHED);
  }

  override destinationOf = ({ topic }: OutboxMessage): string => `topic "${topic}"`;
  triesOf = (topic: string): number => this.attempted.filter((message) => message.topic === topic).length;

  refuse(topic: string): PublishResult {
    const failure = { blame: 'transport', suspect: 'destination', destination: `topic "${topic}"` } as const;
    return { ok: false, ...failure, certain: this.certain, error: new Error(`There is no topic ${topic}.`) };
  }
}

describeOnEach([], 'destinations that are missing', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  const some = (topic: string, count: number, keys = 10) =>
    Array.from({ length: count }, (_, n) => ({
      topic,
      key: `${topic}-${n % keys}`,
      bucket: (n % keys) % 4,
      payload: Buffer.from(`${n}`),
    }));

  const ways = FEWER_DATABASES.includes(kind) ? (['buckets', 'rowLock'] as const) : (['buckets'] as const);
  it.each(ways)(
    'R1, R7: its messages are put off without a try, others go on, and the first that gets through frees all of them (%s)',
    async (coordination) => {
      const ordering = coordination === 'rowLock' ? 'none' : 'key';
      harness = await createHarness(kind, { coordination, ordering, pollInterval: 50, retry: { maxAttempts: 1 } });
      const transport = new MissingTopics(['missing']);
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await harness.enqueue(some('missing', 3_000, 700));
      await harness.enqueue(some('there', 100));
      const begun = Date.now();
      await dispatcher.start();
      await transport.until(() => transport.published.length === 100);
      await until(async () => (await harness.count('ready')) === 0);
      // What was handed over before the first answer; and one, now and then, since.
      expect(transport.triesOf('missing')).toBeLessThan(1_600);
      const tries = transport.triesOf('missing');
      await harness.enqueue(some('missing', 500, 50));
      await until(async () => (await harness.count('ready')) === 0);
      expect(transport.triesOf('missing') - tries).toBeLessThan(20);
      expect(hooks.of('circuitOpened')).toEqual([]);
      const [transportRelay] = dispatcher.status().transports;
      expect(transportRelay?.away).toEqual([expect.objectContaining({ name: 'topic "missing"' })]);
      const { away } = await readStats(harness.store, harness.transportIds, {
        statuses: dispatcher.status().transports,
        now: Date.now(),
      });
      const since = expect.any(Date) as Date;
      const lastError = expect.stringContaining('There is no topic missing.') as string;
      expect(away).toEqual([
        { transport: 'default', destination: 'topic "missing"', since, waiting: expect.any(Number), lastError },
      ]);
      expect(away[0]?.waiting).toBeGreaterThan(3_300); // all but what is being tried
      expect(Number(away[0]?.since)).toBeGreaterThanOrEqual(begun);
      expect(Number(away[0]?.since)).toBeLessThanOrEqual(Date.now());
      transport.missing.clear();
      await transport.until(() => transport.published.length === 3_600, 120_000); // nobody waits for a turn of its own, half an hour away
      expect(hooks.of('dead')).toEqual([]);
      expect(transport.attempted.every(({ attempts }) => attempts === 0)).toBe(true);
      expect(hooks.of('destinationAway').map(({ destination }) => destination)).toEqual(['topic "missing"']);
      expect(hooks.of('destinationBack')).toEqual([expect.objectContaining({ destination: 'topic "missing"' })]);
      if (coordination === 'rowLock') return;
      for (let key = 0; key < 50; key += 1) {
        const ofKey = transport.published
          .filter((message) => message.key === `missing-${key}`)
          .map(({ seq }) => Number(seq));
        expect(ofKey).toEqual([...ofKey].sort((a, b) => a - b));
      }
    },
    300_000,
  );
});
