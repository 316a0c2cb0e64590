import type { PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createHarness, RecordedHooks, ScriptedTransport, type Harness } from '../../support/relay.js';
import { allow, refuse } from '../../support/refusing-database.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

const text = (value: string | number) => Buffer.from(String(value));
const rejected = (error: unknown = new Error('no')): PublishResult => ({ ok: false, blame: 'message', error });
/** Full jitter at its upper end: delays that a test can predict. */
const ALWAYS_LONGEST = { random: () => 0.999_999 };

interface ParkedRow {
  state: string;
  attempts: number;
  last_error: string | null;
}

describe.each(DATABASES)('attempts, delays and errors on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness?.close());
    /** A whole number of 64 bits in MySQL's view, which its driver gives as a text. */
    const attempts = kind === 'mysql' ? 'attempts + 0e0' : 'attempts';

    /** As an operator sees it, in the order of the inserts. */
    const look = (): Promise<ParkedRow[]> =>
      harness.dataSource.query(
        `select state, ${attempts} as attempts, last_error from outbox_messages where state <> 'ready' order by seq`,
      );

    it('counts each failure once under three relays: dead after exactly maxAttempts, never sent again', async () => {
      harness = await createHarness(kind, {
        pollInterval: 50,
        retry: { initial: 1, max: 5, maxAttempts: 3 },
      });
      const attempts = new Map<string, number>();
      const relays = await Promise.all(
        [1, 2, 3].map(async () => {
          const transport = new ScriptedTransport();
          transport.behave = ({ id }) => (attempts.set(id, (attempts.get(id) ?? 0) + 1), rejected());
          const relay = harness.relay({ default: transport });
          await relay.dispatcher.start();
          return { ...relay, transport };
        }),
      );
      await until(() => {
        for (const { dispatcher } of relays) dispatcher.lookAtLeases(); // peers, and not only in its time
        return relays.every(({ dispatcher }) => (dispatcher.status().transports[0]?.buckets.length ?? 0) > 5);
      });
      const ids = await harness.enqueue(Array.from({ length: 60 }, (_, i) => ({ key: i % 2 ? `k${i}` : null })));
      const deaths = (): number => relays.reduce((sum, { hooks }) => sum + hooks.of('dead').length, 0);
      await until(() => deaths() === 60);
      await Promise.all(relays.map(({ dispatcher }) => dispatcher.drain({ timeout: 60_000 })));
      expect([...attempts.values()]).toEqual(ids.map(() => 3));
      expect((await look()).map(({ state, attempts: n }) => [state, n])).toEqual(ids.map(() => ['dead', 3]));
      expect(relays.every(({ transport }) => transport.attempted.length > 0)).toBe(true);
    });

    it('waits as long as it says, longer each time, also when the relay is another one', async () => {
      harness = await createHarness(kind, { pollInterval: 20, retry: { initial: 400, max: '1m' } });
      await harness.enqueue([{ key: 'k' }]);
      const attemptedAt: number[] = [];
      const relay = async (): Promise<{
        stop(): Promise<void>;
        hooks: RecordedHooks;
        transport: ScriptedTransport;
      }> => {
        const transport = new ScriptedTransport();
        transport.behave = () => {
          attemptedAt.push(performance.now());
          return attemptedAt.length < 4 ? rejected() : PUBLISHED;
        };
        const { dispatcher, hooks } = harness.relay({ default: transport }, {}, ALWAYS_LONGEST);
        await dispatcher.start();
        return { stop: () => dispatcher.stop(), hooks, transport };
      };
      const first = await relay();
      await first.hooks.until('retried', 3);
      await first.stop();
      const second = await relay();
      await second.transport.until(() => second.transport.published.length === 1);
      const delays = [...first.hooks.of('retried'), ...second.hooks.of('retried')].map(({ delay }) => delay);
      expect(delays).toEqual([400, 800, 1_600]);
      const waited = attemptedAt.slice(1).map((at, i) => at - (attemptedAt[i] as number));
      // Never earlier; later by a few polls and round trips, and the start of a relay.
      for (const [i, delay] of delays.entries()) expect(waited[i]).toBeGreaterThan(delay - 20);
    });

    it('archives with its attempts and the time of its confirm what went through in the end', async () => {
      harness = await createHarness(kind, { onPublished: 'archive', pollInterval: 20, retry: { initial: 1, max: 1 } });
      const transport = new ScriptedTransport();
      let confirmedAt = 0;
      transport.behave = ({ attempts }) => {
        if (attempts < 2) return rejected();
        confirmedAt = Date.now();
        return PUBLISHED;
      };
      await harness.enqueue([{ key: 'k' }]);
      const { dispatcher } = harness.relay({ default: transport });
      await dispatcher.start();
      await until(async () => (await harness.count('archive')) === 1);
      const time =
        kind === 'postgres'
          ? 'extract(epoch from published_at)'
          : `timestampdiff(microsecond, '1970-01-01', published_at) / 1e6`;
      const rows = await harness.dataSource.query(
        `select state, ${attempts} as attempts, last_error, ${time} as t from outbox_messages`,
      );
      expect(rows).toMatchObject([{ state: 'published', attempts: 2, last_error: null }]);
      expect(Number(rows[0].t) * 1_000).toBeGreaterThan(confirmedAt - 20);
      expect(Number(rows[0].t) * 1_000).toBeLessThan(Date.now() + 20);
    });

    it('stores error texts of any length and content, without credentials, payload or headers', async () => {
      harness = await createHarness(kind, { retry: { initial: '1h', max: '1h' } });
      const error = Object.assign(new Error(`amqp://shop:canary-url@broker refused: password=canary-word`), {
        content: 'canary-payload',
        config: { sasl: { password: 'canary-sasl' } },
      });
      const errors = [
        new Error('😀'.repeat(2_000)),
        new Error('x'.repeat(100_000)),
        new Error('a\u0000b\ud800c'),
        error,
      ];
      const transport = new ScriptedTransport();
      transport.behave = ({ payload }) => rejected(errors[Number(String(payload).slice(-1))]);
      await harness.enqueue(
        errors.map((_, i) => ({ payload: text(`canary-payload ${i}`), headers: '{"h":"canary-header"}' })),
      );
      const { dispatcher, hooks } = harness.relay({ default: transport });
      expect(await dispatcher.drain({ timeout: 60_000 })).toMatchObject({ retried: 4 });
      const stored = (await look()).map(({ last_error }) => last_error as string);
      expect(stored.map((each) => Array.from(each).length).slice(0, 2)).toEqual([1_024, 1_024]);
      expect(stored[0]).toMatch(/^(😀)+…$/u);
      expect(stored.slice(2)).toEqual(['a\\u0000b\ufffdc', 'amqp://***@broker refused: password=***']);
      expect(JSON.stringify([hooks.events, dispatcher.status()])).not.toContain('canary');
    });

    it('says when the last attempt was, and keeps as many failures as it is asked for', async () => {
      const select = (columns: string) =>
        harness.dataSource.query(`select ${columns} from outbox_messages order by seq`);
      const clock = async (): Promise<number> => {
        const now = kind === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)';
        const [{ t }] = await harness.dataSource.query(`select ${now} as t`);
        return new Date(t).getTime();
      };
      harness = await createHarness(kind, {
        onPublished: 'archive',
        retry: { initial: 1, max: 1, errorHistory: 3 },
      });
      const transport = new ScriptedTransport();
      transport.behave = ({ attempts }) => rejected(new Error(`no ${attempts + 1} "'{}`));
      await harness.enqueue([{ key: 'k' }, { key: 'k' }]);
      const { dispatcher } = harness.relay({ default: transport }, { retry: harness.options.retry });
      let kept: { attempt: number; error: string; at: string }[] = [];
      while ((kept.at(-1)?.attempt ?? 0) < 5) {
        const before = await clock();
        await dispatcher.runOnce();
        const [row] = await select('last_attempt_at, errors, state');
        const at = new Date(row.last_attempt_at).getTime();
        expect(at).toBeGreaterThanOrEqual(before - 1);
        expect(at).toBeLessThanOrEqual(await clock());
        kept = JSON.parse(row.errors ?? '[]');
      }
      const last = kept.at(-1)?.attempt ?? 0; // one look may make more than one attempt
      expect(kept).toMatchObject(
        [last - 2, last - 1, last].map((attempt) => ({ attempt, error: `no ${attempt} "'{}` })),
      );
      const times = kept.map(({ at }) => new Date(at).getTime());
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(new Set(times).size).toBe(3);
    });

    it('tells the hook only of deaths that are written down, with the broker’s error', async () => {
      const told: string[] = [];
      harness = await createHarness(kind, {
        retry: { maxAttempts: 1 },
        deadLetter: ({ error }) => void told.push(error ?? ''),
      });
      const transport = new ScriptedTransport();
      transport.behave = () => rejected(new Error('the broker says no'));
      await refuse(harness, 'insert', 'outbox_parked');
      await harness.enqueue([{ key: 'k' }]);
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      await hooks.until('error', 2);
      expect(hooks.of('error')[0]).toMatchObject({
        operation: 'park',
        error: { message: expect.stringContaining('not today') },
      });
      expect([told, hooks.of('dead')]).toEqual([[], []]);
      await allow(harness, 'outbox_parked');
      expect(await hooks.until('dead')).toMatchObject({ attempts: 1, error: 'the broker says no' });
      await until(() => told.length > 0);
      expect(told).toEqual(['the broker says no']);
      expect(transport.attempted).toHaveLength(1);
    });
  });
});
