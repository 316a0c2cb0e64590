import { randomUUID } from 'node:crypto';
import type { PublishResult, OutboxMessage } from '../../lib/index.js';
import { PUBLISHED } from '../../lib/transports/transport.js';
import { until } from '../support/until.js';
import { broken, createHarness, ScriptedTransport, type Harness } from '../support/relay.js';
import { operatorOf } from '../support/operator.js';

const text = (value: string | number) => Buffer.from(String(value));
const rejected = (error = 'no'): PublishResult => ({ ok: false, blame: 'message', error: new Error(error) });
const down = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('connection refused') });

/** The protocol of the relay on a real database, with a transport that the test commands. */
export function describeRelay(kind: Parameters<typeof createHarness>[0]): void {
  let harness: Harness;
  afterEach(() => harness?.close());

  it('publishes what was committed, in order per key, and nothing else', async () => {
    harness = await createHarness(kind);
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport });
    for (let i = 0; i < 50; i += 1)
      await harness.enqueue([{ key: `k${i % 5}`, payload: text(i) }, { payload: text(`free ${i}`) }]);
    await harness.dataSource.transaction(async () => Promise.reject(new Error('rolled back'))).catch(() => undefined);
    const report = await dispatcher.drain({ timeout: 60_000 });
    expect(report).toEqual({ published: 100, retried: 0, dead: 0 });
    for (let k = 0; k < 5; k += 1) {
      const seen = transport.published.filter(({ key }) => key === `k${k}`).map(({ payload }) => Number(payload));
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
      expect(seen).toHaveLength(10);
    }
    expect(await harness.count('ready')).toBe(0);
  });

  it('holds a key back while its first message fails, others go on, and keeps the order after it', async () => {
    harness = await createHarness(kind);
    const transport = new ScriptedTransport();
    let failures = 3;
    transport.behave = (message) => (String(message.payload) === 'a1' && failures-- > 0 ? rejected() : PUBLISHED);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await harness.enqueue(
      ['a1', 'b1', 'a2', 'b2', 'a3'].map((value) => ({ key: value[0] as string, payload: text(value) })),
    );
    await dispatcher.start();
    await transport.until(() => transport.published.length === 5);
    await harness.enqueue([{ key: 'a', payload: text('a4') }]);
    dispatcher.nudge();
    await transport.until(() => transport.published.length === 6);
    expect(transport.texts.filter((value) => value.startsWith('a'))).toEqual(['a1', 'a2', 'a3', 'a4']);
    expect(transport.texts.filter((value) => value.startsWith('b'))).toEqual(['b1', 'b2']);
    expect(transport.attempted).toHaveLength(9);
    expect(hooks.of('retried').map(({ attempts }) => attempts)).toEqual([1, 2, 3]);
    expect(hooks.of('failed')).toHaveLength(3);
    expect(hooks.of('failed')[0]).toMatchObject({
      transport: 'default',
      count: 1,
      blame: 'message',
      error: expect.stringContaining('no'),
    });
  });

  it('never has two unresolved messages of a key', async () => {
    harness = await createHarness(kind);
    const transport = new ScriptedTransport();
    const open = new Map<string, number>();
    let worst = 0;
    transport.behave = async ({ key }) => {
      open.set(key as string, (open.get(key as string) ?? 0) + 1);
      worst = Math.max(worst, ...open.values());
      await new Promise((resolve) => setImmediate(resolve));
      open.set(key as string, (open.get(key as string) as number) - 1);
      return PUBLISHED;
    };
    const { dispatcher } = harness.relay({ default: transport });
    await harness.enqueue(Array.from({ length: 400 }, (_, i) => ({ key: `k${i % 7}`, payload: text(i) })));
    await dispatcher.drain({ timeout: 60_000 });
    expect(transport.published).toHaveLength(400);
    expect(worst).toBe(1);
  });

  it('makes a dead letter after maxAttempts; the key waits under block, goes on under skip', async () => {
    harness = await createHarness(kind, { retry: { initial: 1, max: 1, maxAttempts: 2 } });
    const transport = new ScriptedTransport();
    transport.behave = (message) => (String(message.payload).endsWith('1') ? rejected() : PUBLISHED);
    const skip = JSON.stringify({ $retry: { onDead: 'skip' } });
    await harness.enqueue([
      { key: 'a', payload: text('a1') },
      { key: 'a', payload: text('a2') },
      { key: 'b', payload: text('b1'), options: skip },
      { key: 'b', payload: text('b2') },
    ]);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    await hooks.until('dead', 2);
    await transport.until(() => transport.texts.includes('b2'));
    expect(transport.texts).toEqual(['b2']);
    expect(hooks.of('dead').map(({ attempts }) => attempts)).toEqual([2, 2]);
    await until(async () => (await harness.count('parked')) === 3);
    transport.behave = () => PUBLISHED;
    expect(await operatorOf(harness.store).release('a')).toBeGreaterThan(0);
    await transport.until(() => transport.texts.includes('a2'));
  });

  it('requeued, a dead letter takes its old place', async () => {
    harness = await createHarness(kind, { retry: { initial: 1, max: 1, maxAttempts: 1 } });
    const transport = new ScriptedTransport();
    transport.behave = (message) => (String(message.payload) === '1' ? rejected() : PUBLISHED);
    const [id] = await harness.enqueue(['1', '2', '3'].map((value) => ({ key: 'a', payload: text(value) })));
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    await hooks.until('dead');
    transport.behave = () => PUBLISHED;
    expect(await operatorOf(harness.store).requeue({ ids: [id as string] })).toMatchObject({ changed: [id] });
    await transport.until(() => transport.published.length === 3);
    expect(transport.texts).toEqual(['1', '2', '3']);
  });

  it('charges nobody for an outage, for as long as it lasts, and keeps the order after it', async () => {
    harness = await createHarness(kind, { retry: { maxAttempts: 1 } });
    const transport = new ScriptedTransport();
    let up = false;
    transport.behave = () => (up ? PUBLISHED : down());
    await harness.enqueue(Array.from({ length: 60 }, (_, i) => ({ key: `k${i % 3}`, payload: text(i) })));
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    await hooks.until('circuitOpened', 3);
    up = true;
    await transport.until(() => transport.published.length === 60);
    await hooks.until('circuitClosed');
    expect(hooks.of('dead')).toEqual([]);
    expect(hooks.of('retried')).toEqual([]);
    for (let k = 0; k < 3; k += 1) {
      const seen = transport.published.filter(({ key }) => key === `k${k}`).map(({ payload }) => Number(payload));
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
    }
    expect(transport.resets).toBeGreaterThan(0);
  });

  it('finds the one message that kills the connection, and charges it alone', async () => {
    harness = await createHarness(kind, { retry: { maxAttempts: 1 } });
    const transport = new ScriptedTransport();
    transport.behave = (message) => (String(message.payload) === 'poison' ? broken() : PUBLISHED);
    await harness.enqueue([
      { payload: text('poison') },
      ...Array.from({ length: 20 }, (_, i) => ({ payload: text(i) })),
    ]);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    // While it alone is left, it looks like an outage. Others that get through tell the difference.
    let others = 20;
    for (let opened = 1; hooks.of('dead').length === 0; opened += 1) {
      await Promise.race([hooks.until('circuitOpened', opened), hooks.until('dead')]);
      await harness.enqueue([{ payload: text(`after ${opened}`) }]);
      others += 1;
    }
    await transport.until(() => transport.published.length === others);
    expect(hooks.of('dead')).toHaveLength(1);
  });

  it('an outage of one transport does not touch another', async () => {
    harness = await createHarness(kind, {
      transports: { default: new ScriptedTransport(), other: new ScriptedTransport() },
    });
    const bad = new ScriptedTransport();
    const good = new ScriptedTransport();
    bad.behave = down;
    const { dispatcher, hooks } = harness.relay({ default: bad, other: good });
    await harness.enqueue([
      { payload: text('x') },
      { payload: text('y'), transport: harness.transportIds.get('other') as number },
    ]);
    await dispatcher.start();
    await good.until(() => good.published.length === 1);
    await hooks.until('circuitOpened', 2);
    await until(async () => (await harness.count('ready')) === 1);
  });

  it('retries the neighbours of a culprit singly and charges only the culprit', async () => {
    harness = await createHarness(kind, { retry: { maxAttempts: 1 } });
    const transport = new ScriptedTransport();
    const batchOf = new Set<OutboxMessage>();
    transport.behave = async (message) => {
      batchOf.add(message);
      await new Promise((resolve) => setImmediate(resolve));
      const alone = batchOf.size === 1;
      await new Promise((resolve) => setImmediate(resolve));
      batchOf.delete(message);
      const poisoned = String(message.payload) === 'poison';
      if (alone) return poisoned ? rejected() : PUBLISHED;
      return { ok: false, blame: 'collateral', error: new Error('channel closed') };
    };
    await harness.enqueue([
      ...Array.from({ length: 9 }, (_, i) => ({ payload: text(i) })),
      { payload: text('poison') },
    ]);
    const { dispatcher } = harness.relay({ default: transport });
    const report = await dispatcher.drain({ timeout: 60_000 });
    expect(report).toEqual({ published: 9, retried: 0, dead: 1 });
  });

  it('publishes a delayed message when it is due, not before, and it holds nobody', async () => {
    harness = await createHarness(kind);
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    await harness.enqueue([{ payload: text('first') }]);
    await transport.until(() => transport.published.length === 1); // connected, and every bucket is read
    await harness.enqueue([
      { key: 'a', payload: text('in an hour'), delay: 3_600_000 },
      { key: 'a', payload: text('now') },
    ]);
    await transport.until(() => transport.published.length === 2);
    const startedAt = performance.now();
    await harness.enqueue([{ key: 'a', payload: text('later'), delay: 1_000 }]);
    await transport.until(() => transport.published.length === 3);
    expect(transport.texts).toEqual(['first', 'now', 'later']);
    expect(performance.now() - startedAt).toBeGreaterThan(900);
  });

  it('takes a global order over from an instance that died, though every other bucket is free', async () => {
    harness = await createHarness(kind, { ordering: 'global', pollInterval: 50 });
    await harness.store.leases.acquire({ owner: randomUUID(), leaseMs: 1_000, transport: 0, limit: 1, only: [0] });
    const transport = new ScriptedTransport();
    await harness.relay({ default: transport }).dispatcher.start();
    await harness.enqueue([{ bucket: 0 }]);
    await transport.until(() => transport.published.length === 1);
  });

  it('publishes what was scheduled for the same moment in a global order, and goes on', async () => {
    harness = await createHarness(kind, { ordering: 'global', pollInterval: 50 });
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport });
    await harness.enqueue(['1', '2', '3'].map((each) => ({ key: 'k', bucket: 0, delay: 1, payload: text(each) })));
    await dispatcher.start();
    await transport.until(() => transport.published.length === 3);
    await harness.enqueue([{ key: 'k', bucket: 0, payload: text('4') }]);
    await transport.until(() => transport.published.length === 4);
    expect(transport.texts).toEqual(['1', '2', '3', '4']);
  });

  it('keeps a global order', async () => {
    harness = await createHarness(kind, { ordering: 'global' });
    const transport = new ScriptedTransport();
    let failures = 2;
    transport.behave = (message) => (String(message.payload) === '10' && failures-- > 0 ? rejected() : PUBLISHED);
    await harness.enqueue(
      Array.from({ length: 40 }, (_, i) => ({ key: i % 2 === 0 ? `k${i}` : null, bucket: 0, payload: text(i) })),
    );
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    await transport.until(() => transport.published.length === 40);
    expect(transport.texts.map(Number)).toEqual(Array.from({ length: 40 }, (_, i) => i));
  });

  it('stops in bounded time, gives the leases back, and another instance goes on at once', async () => {
    harness = await createHarness(kind);
    const first = new ScriptedTransport();
    const second = new ScriptedTransport();
    const a = harness.relay({ default: first });
    await a.dispatcher.start();
    await harness.enqueue([{ payload: text('1') }]);
    a.dispatcher.nudge();
    await first.until(() => first.published.length === 1);
    await a.dispatcher.stop();
    const b = harness.relay({ default: second });
    await harness.enqueue([{ payload: text('2') }]);
    await b.dispatcher.start();
    await second.until(() => second.published.length === 1);
    expect(first.texts).toEqual(['1']);
    expect(second.texts).toEqual(['2']);
  });

  it('archives instead of deleting when told', async () => {
    harness = await createHarness(kind, { onPublished: 'archive' });
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport });
    await harness.enqueue([{ payload: text('1') }, { payload: text('2'), delay: 1 }]);
    await dispatcher.start();
    await transport.until(() => transport.published.length === 2);
    await dispatcher.stop();
    expect(await harness.count('archive')).toBe(2);
    expect(await harness.count('ready')).toBe(0);
    expect(await harness.count('parked')).toBe(0);
  });

  it('G8: tells the dead-letter hook after commit, again when it threw', async () => {
    let rejections = 1;
    const told: string[] = [];
    harness = await createHarness(kind, {
      retry: { maxAttempts: 1 },
      deadLetter: ({ message, error }) => {
        if (rejections-- > 0) throw new Error('not now');
        told.push(`${String(message.payload)}: ${error}`);
      },
    });
    const transport = new ScriptedTransport();
    transport.behave = () => rejected('too odd');
    await harness.enqueue([{ payload: text('x') }]);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.drain({ timeout: 60_000 });
    await hooks.until('error');
    await dispatcher.drain({ timeout: 60_000 });
    expect(told).toEqual(['x: too odd']);
  });
}
