import { Registry } from 'prom-client';
import { OutboxPrometheus } from '../../../lib/prometheus/index.js';
import { FakeOutbox } from './fake-outbox.js';

describe('metrics for Prometheus: the counts of the tables', () => {
  const begin = (countEvery: '15s' | null = '15s') => {
    const [outbox, registry] = [new FakeOutbox(), new Registry()];
    const metrics = new OutboxPrometheus(outbox as never, { registry, countEvery }, outbox.clock);
    const lines = async (pattern: RegExp): Promise<string[]> =>
      (await registry.metrics()).split('\n').filter((line) => pattern.test(line));
    return { outbox, registry, metrics, lines };
  };
  const READY = /^outbox_messages\{.*ready/;

  it('are asked once in countEvery, however many scrape, and say how old they are', async () => {
    const { outbox, lines } = begin();
    await Promise.all([lines(READY), lines(READY), lines(READY)]);
    await outbox.clock.advance(14_000);
    expect(await lines(/^outbox_counts_age_seconds\{/)).toEqual(['outbox_counts_age_seconds{outbox="default"} 14']);
    expect(outbox.asked).toBe(1);
    await outbox.clock.advance(1_000);
    await lines(READY);
    expect(outbox.asked).toBe(2);
  });

  it('are waited for until countTimeout, once; a scrape shows the last ones then, for five minutes', async () => {
    const { outbox, lines } = begin();
    await lines(READY);
    await outbox.clock.advance(15_000);
    outbox.statsAre = () => new Promise(() => undefined);
    let shown: string[] | undefined;
    const scrape = lines(READY).then((found) => (shown = found));
    await outbox.clock.advance(4_900);
    expect(shown).toBeUndefined();
    await outbox.clock.advance(100);
    expect(await scrape).toHaveLength(1);
    expect(await lines(READY)).toHaveLength(1); // at once: nothing moves the clock
    await outbox.clock.advance(285_001);
    expect(await lines(/^outbox_(messages|counts_age_seconds)\{/)).toEqual([]);
    expect(outbox.asked).toBe(2); // one question at a time
  });

  it('that fail are counted, and asked for again after countEvery', async () => {
    const { outbox, lines } = begin();
    outbox.statsAre = () => Promise.reject(new Error('no'));
    expect(await lines(/^outbox_(messages|counts_age_seconds|count_failures_total)\{/)).toEqual([
      'outbox_count_failures_total{outbox="default"} 1',
    ]);
    await lines(READY);
    expect(outbox.asked).toBe(1);
    outbox.statsAre = () => Promise.resolve(outbox.counts);
    await outbox.clock.advance(15_000);
    expect(await lines(READY)).toHaveLength(1);
  });

  it('are not asked at all where countEvery is null, and health is shown all the same', async () => {
    const { outbox, lines } = begin(null);
    expect(await lines(/^outbox_(messages|relay_running)\{/)).toEqual(['outbox_relay_running{outbox="default"} 1']);
    expect(outbox.asked).toBe(0);
  });

  it('do not keep a scrape from its counters when health fails', async () => {
    const { outbox, lines } = begin();
    outbox.health = () => Promise.reject(new Error('no'));
    expect(await lines(/^outbox_(health_status|warnings_total)\{/)).toEqual([
      'outbox_warnings_total{outbox="default"} 0',
    ]);
  });
});
