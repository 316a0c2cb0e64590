import { Registry } from 'prom-client';
import { OutboxConfigurationError } from '../../../lib/outbox.errors.js';
import { OutboxPrometheus } from '../../../lib/prometheus/index.js';
import type { SnapshotAge } from '../../../lib/prometheus/gauges.js';
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
    await outbox.clock.advance(300_001);
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

  it('come with the sizes of the tables, once a minute at most, and with neither where countEvery is null', async () => {
    const { outbox, lines } = begin();
    expect(await lines(/^outbox_table_/)).toEqual([
      'outbox_table_bytes{outbox="default",table="ready"} 8192',
      'outbox_table_bytes{outbox="default",table="parked"} 16384',
      'outbox_table_rows{outbox="default",table="ready"} 0',
      'outbox_table_rows{outbox="default",table="parked"} 12',
      'outbox_table_dead_rows{outbox="default",table="ready"} 7',
    ]);
    await outbox.clock.advance(59_000);
    await lines(READY);
    expect([outbox.asked, outbox.sized]).toEqual([2, 1]);
    await outbox.clock.advance(1_000);
    await lines(READY);
    expect(outbox.sized).toBe(2);
    const silent = begin(null);
    expect(await silent.lines(/^outbox_table_/)).toEqual([]);
    expect(silent.outbox.sized).toBe(0);
  });

  it('come with whether the tables differ from what this version needs, as far as that is known', async () => {
    const { outbox, lines } = begin();
    const differs = async (): Promise<string[]> => {
      await outbox.clock.advance(15_000);
      return (await lines(/^outbox_schema_differs/)).map((line) => line.split(' ')[1] as string);
    };
    expect(await differs()).toEqual(['0']);
    const fails = (error: Error) => () => Promise.reject(error);
    outbox.schemaIs = fails(new OutboxConfigurationError('SCHEMA_MISMATCH', 'The tables have version 2.'));
    expect(await differs()).toEqual(['1']);
    outbox.schemaIs = fails(new Error('away')); // what was known stands
    expect(await differs()).toEqual(['1']);
    outbox.schemaIs = fails(new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'It is a replica.'));
    expect(await differs()).toEqual(['1']);
    outbox.schemaIs = () => Promise.resolve();
    expect(await differs()).toEqual(['0']);
    expect(await begin(null).lines(/^outbox_schema_differs/)).toEqual([]);
  });

  it('come with the oldest snapshot, as far as this login may know it', async () => {
    const SNAPSHOT = /^outbox_oldest_snapshot/;
    const { outbox, lines } = begin();
    const [age, transactions] = ['seconds', 'transactions'].map(
      (unit) => `outbox_oldest_snapshot_${unit}{outbox="default"}`,
    );
    expect(await lines(SNAPSHOT)).toEqual([`${age} 90`, `${transactions} 12`]);
    const shows = async (snapshot: SnapshotAge): Promise<string[]> => {
      outbox.snapshot = snapshot;
      await outbox.clock.advance(60_000);
      return lines(SNAPSHOT);
    };
    expect(await shows({ age: null, transactions: 12 })).toEqual([`${transactions} 12`]);
    expect(await shows({ age: 0, transactions: 0 })).toEqual([`${age} 0`, `${transactions} 0`]);
    expect(await shows({ age: null, transactions: null })).toEqual([]);
    expect(await begin(null).lines(SNAPSHOT)).toEqual([]);
  });

  it('do not keep a scrape from its counters when health fails', async () => {
    const { outbox, lines } = begin();
    outbox.health = () => Promise.reject(new Error('no'));
    expect(await lines(/^outbox_(health_status|warnings_total)\{/)).toEqual([
      'outbox_warnings_total{outbox="default"} 0',
    ]);
  });
});
