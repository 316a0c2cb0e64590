import { once } from 'node:events';
import type { PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { gate } from '../../support/transport-relay.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnEach } from '../../support/services.js';
import { operatorOf } from '../../support/operator.js';

const text = (value: string | number) => Buffer.from(String(value));
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });
/** What an event class says for its own messages, as it is stored with them. */
const onDead = (value: 'block' | 'skip') => JSON.stringify({ $retry: { onDead: value } });

const KEYS = 1_000;
const ROUNDS = 2;
/** Of messages that are due at one instant. */
const DUE = 5_000;
const HOUR = 3_600_000;
const NOW = { postgres: 'now()', mariadb: 'utc_timestamp(6)', mysql: 'utc_timestamp(6)' };
/** No publish that the test holds back is given up meanwhile. */
const PATIENT = { lease: '30m', publishTimeout: '10m' } as const;

describeOnEach([], 'one poison among many', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  /** Publishes all but the one of 1,000 keys that is refused, without a poll. */
  async function publishGood(): Promise<void> {
    const transport = new ScriptedTransport();
    transport.behave = ({ key }) => (key === 'poison' ? rejected() : PUBLISHED);
    const { dispatcher } = harness.relay({ default: transport }, { pollInterval: HOUR });
    await dispatcher.start();
    for (let round = 1; round <= ROUNDS; round += 1) {
      await harness.enqueue(Array.from({ length: KEYS }, (_, i) => ({ key: i === 500 ? 'poison' : `good ${i}` })));
      dispatcher.nudge();
      await transport.until(() => transport.published.length === round * (KEYS - 1), 60_000);
    }
    await dispatcher.stop();
  }

  it.each([
    ['blocked by a dead message', { maxAttempts: 1 }],
    ['held by backoff', { initial: '1h', max: '1h' }],
  ] as const)('D1: one key of 1,000 is %s: the others wait for nothing', async (_, retry) => {
    harness = await createHarness(kind, { retry });
    // Held for one poll they would wait for an hour. How quick they are `npm run bench -- poison` measures.
    await publishGood();
    await publishGood(); // by one that finds the key as it is
    const stats = (await harness.store.admin.stats())[0]!;
    expect(stats).toMatchObject({ ready: 0, blockedKeys: 1 });
    expect(stats.dead + stats.waiting).toBe(1);
    expect(stats.blocked).toBe(2 * ROUNDS - 1);
  });

  it('D5: two operators requeue 1,000 dead letters at once: each is published once', async () => {
    harness = await createHarness(kind, { retry: { maxAttempts: 1 } });
    const transport = new ScriptedTransport();
    transport.behave = rejected;
    const { dispatcher, hooks, store } = harness.relay({ default: transport });
    const ids = await harness.enqueue(
      Array.from({ length: 1_000 }, (_, i) => ({ key: i % 2 ? `k${i % 20}` : null, options: onDead('skip') })),
    );
    await dispatcher.start();
    await hooks.until('dead', 1_000, 60_000);
    transport.behave = () => PUBLISHED;
    transport.attempted.length = 0;
    const done = await Promise.all([harness.store, store].map((each) => operatorOf(each).requeue({ ids })));
    dispatcher.nudge();
    await transport.until(() => transport.published.length === 1_000, 60_000);
    await dispatcher.drain({ timeout: 60_000 });
    expect(transport.attempted.map(({ id }) => id).sort()).toEqual([...ids].sort());
    // Which of the two freed a letter is told to one, or to both while it still waits.
    expect(new Set(done.flatMap((each) => each.changed)).size).toBe(1_000);
    expect(await harness.count('parked')).toBe(0);
  });

  it('D6: bytes that nobody can read are published as they are', async () => {
    harness = await createHarness(kind);
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport });
    const payloads = [Buffer.from([0xc3, 0x28, 0, 0xff]), text('{"broken":'), Buffer.alloc(0), text('ok')];
    await harness.enqueue(payloads.map((payload) => ({ key: 'k', payload })));
    expect(await dispatcher.drain({ timeout: 60_000 })).toEqual({ published: 4, retried: 0, dead: 0 });
    expect(transport.published.map(({ payload }) => payload)).toEqual(payloads);
  });

  it('D7: 5,000 that are due at one instant, and what is enqueued meanwhile is not held up by them', async () => {
    harness = await createHarness(kind, { ...PATIENT, batchSize: 100 });
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport });
    const deliverAt = new Date(Date.now() + HOUR);
    await harness.enqueue(Array.from({ length: DUE }, (_, i) => ({ key: `k${i % 700}`, deliverAt, payload: text(i) })));
    expect((await harness.store.admin.stats())[0]).toMatchObject({ scheduled: DUE });
    await dispatcher.start();
    await harness.enqueue(Array.from({ length: 10 }, () => ({ key: 'k1', payload: text('before') })));
    dispatcher.nudge();
    await transport.until(() => transport.published.length >= 10);
    expect(transport.texts).toEqual(Array.from({ length: 10 }, () => 'before'));
    // Nothing of what is due gets through before the other one is there.
    const isThere = gate<PublishResult>();
    transport.behave = () => isThere.opened;
    const begun = once(transport.signals, 'attempt', { signal: AbortSignal.timeout(60_000) });
    await harness.dataSource.query(`update outbox_parked set due_at = ${NOW[kind]}`);
    await begun;
    const [live] = await harness.enqueue([{ key: 'of its own' }]);
    transport.behave = () => PUBLISHED;
    dispatcher.nudge();
    isThere.open(PUBLISHED);
    await transport.until(() => transport.published.length === DUE + 11, 120_000);
    expect(transport.published.findIndex(({ id }) => id === live)).toBeLessThan(DUE / 2);
    for (const k of [0, 1, 699]) {
      const seen = transport.published
        .filter(({ key, payload }) => key === `k${k}` && String(payload) !== 'before')
        .map(({ payload }) => Number(payload));
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
    }
  });

  it('D7: more than a page that are due of a key that is busy hide nothing of the others', async () => {
    harness = await createHarness(kind, { ...PATIENT, buckets: 1, batchSize: 100 });
    const transport = new ScriptedTransport();
    const answer = gate<PublishResult>();
    transport.behave = ({ payload }) => (String(payload) === 'slow' ? answer.opened : PUBLISHED);
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    const slow = once(transport.signals, 'attempt');
    await harness.enqueue([{ key: 'busy', payload: text('slow') }]);
    await slow;
    await harness.enqueue(Array.from({ length: 200 }, () => ({ key: 'busy', delay: 1 })));
    await harness.enqueue([{ key: 'other', payload: text('other'), delay: 100 }]);
    await transport.until(() => transport.published.length > 0);
    expect(transport.texts).toEqual(['other']);
    answer.open(PUBLISHED);
    await transport.until(() => transport.published.length === 202);
  });
});
