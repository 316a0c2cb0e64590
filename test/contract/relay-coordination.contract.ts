import { once } from 'node:events';
import type { PublishResult } from '../../lib/index.js';
import { PUBLISHED } from '../../lib/transports/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../support/relay.js';
import type { DatabaseKind } from '../support/services.js';
import { until } from '../support/until.js';

const text = (value: string | number) => Buffer.from(String(value));
/** No publish that the test holds back is given up meanwhile. */
const PATIENT = { lease: '30m', publishTimeout: '10m' } as const;
const rejected = (error: string): PublishResult => ({ ok: false, blame: 'message', error: new Error(error) });
const down = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('connection refused') });

/** The ways to share the work other than by buckets, on a real database. */
export function describeCoordination(kind: DatabaseKind): void {
  describe('row locks', () => describeRowLocks(kind));
  describe('a leader', () => describeLeader(kind));
}

function describeRowLocks(kind: DatabaseKind): void {
  const rowLock = { ordering: 'none', coordination: 'rowLock' } as const;
  let harness: Harness;
  afterEach(() => harness?.close());

  it('two relays share a backlog and publish each message once', async () => {
    harness = await createHarness(kind, { ...rowLock, ...PATIENT, batchSize: 50 });
    const ids = await harness.enqueue(
      Array.from({ length: 500 }, (_, i) => ({ payload: text(i), key: i % 2 ? 'k' : null })),
    );
    const transports = [new ScriptedTransport(), new ScriptedTransport()] as const;
    // Nobody gets on before both have rows: what one publishes, the other finds locked.
    const both = Promise.all(
      transports.map(({ signals }) => once(signals, 'attempt', { signal: AbortSignal.timeout(60_000) })),
    );
    const relays = transports.map((transport) => {
      transport.behave = () => both.then(() => PUBLISHED);
      return harness.relay({ default: transport }).dispatcher;
    });
    await Promise.all(relays.map((relay) => relay.start()));
    await until(async () => (await harness.count('ready')) === 0);
    const attempted = transports.map((transport) => transport.attempted.map(({ id }) => id));
    expect(attempted.flat().sort()).toEqual([...ids].sort());
    expect(attempted.every((part) => part.length >= 50)).toBe(true);
    expect((await harness.store.leases.living()).instances).toHaveLength(2);
  });

  it('a failing message is retried, holds nobody, and is dead after maxAttempts', async () => {
    harness = await createHarness(kind, { ...rowLock, retry: { initial: 20, max: 50, maxAttempts: 3 } });
    const transport = new ScriptedTransport();
    transport.behave = (message) => (String(message.payload) === 'bad' ? rejected('too odd') : PUBLISHED);
    const [bad] = await harness.enqueue(['bad', '1', '2'].map((value) => ({ key: 'k', payload: text(value) })));
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    await hooks.until('dead');
    expect(transport.texts.sort()).toEqual(['1', '2']);
    expect(transport.attempted.filter(({ id }) => id === bad).map(({ attempts }) => attempts)).toEqual([0, 1, 2]);
    expect(hooks.of('retried').map(({ attempts }) => attempts)).toEqual([1, 2]);
    expect(hooks.of('dead')).toMatchObject([{ id: bad, attempts: 3 }]);
    const [letter] = await harness.store.parked.unannouncedDead([0], 10);
    expect(letter).toMatchObject({ message: { id: bad, attempts: 3 } });
    expect(letter?.error).toContain('too odd');
    expect(await harness.count('ready')).toBe(0);
  });

  it('a delayed message goes when it is due; archived like the others', async () => {
    harness = await createHarness(kind, { ...rowLock, onPublished: 'archive' });
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    await harness.enqueue([{ payload: text('first') }]);
    await transport.until(() => transport.published.length === 1); // connected
    await harness.enqueue([{ payload: text('in an hour'), delay: 3_600_000 }, { payload: text('now') }]);
    await transport.until(() => transport.published.length === 2);
    const startedAt = performance.now();
    await harness.enqueue([{ payload: text('later'), delay: 1_000 }]);
    await transport.until(() => transport.published.length === 3);
    expect(transport.texts).toEqual(['first', 'now', 'later']);
    expect(performance.now() - startedAt).toBeGreaterThan(900);
    await dispatcher.stop();
    expect(await harness.count('archive')).toBe(3);
    expect(await harness.count('ready')).toBe(0);
    expect(await harness.count('parked')).toBe(1); // in an hour
  });
}

function describeLeader(kind: DatabaseKind): void {
  let harness: Harness;
  afterEach(() => harness?.close());

  it('one of two relays publishes; when it stops the other takes over', async () => {
    harness = await createHarness(kind, { coordination: 'leader' });
    const [first, second] = [new ScriptedTransport(), new ScriptedTransport()];
    const a = harness.relay({ default: first });
    await a.dispatcher.start();
    await a.hooks.until('leasesAcquired');
    const b = harness.relay({ default: second });
    await b.dispatcher.start();
    await until(async () => (await harness.store.leases.living()).instances.length === 2);
    for (let i = 0; i < 64; i += 1) await harness.enqueue([{ key: `k${i}`, payload: text(i) }]);
    await first.until(() => first.published.length === 64);
    expect(a.dispatcher.status().transports[0]?.buckets).toHaveLength(32);
    expect(second.attempted).toEqual([]);
    await a.dispatcher.stop();
    await harness.enqueue(Array.from({ length: 64 }, (_, i) => ({ key: `k${i}`, payload: text(i) })));
    await second.until(() => second.published.length === 64);
    expect(first.published).toHaveLength(64);
  });

  it('who alone cannot reach the broker leaves the lead to the other, and does not take it back', async () => {
    harness = await createHarness(kind, { coordination: 'leader', ...PATIENT, pollInterval: 100 });
    const [first, second] = [new ScriptedTransport(), new ScriptedTransport()];
    let broken = true;
    first.behave = () => (broken ? down() : PUBLISHED);
    // It leaves after a third of its lease; the other's lasts, however long this machine stands still.
    const a = harness.relay({ default: first }, { lease: 10_000, publishTimeout: 1_000 });
    await a.dispatcher.start();
    await a.hooks.until('leasesAcquired');
    const b = harness.relay({ default: second });
    await b.dispatcher.start();
    await harness.enqueue(Array.from({ length: 64 }, (_, i) => ({ key: `k${i}`, payload: text(i) })));
    await second.until(() => second.published.length === 64);
    broken = false;
    await a.hooks.until('circuitClosed');
    await until(async () => (await harness.store.leases.living()).instances.length === 2);
    await harness.enqueue(Array.from({ length: 64 }, (_, i) => ({ key: `k${i}`, payload: text(i) })));
    await second.until(() => second.published.length === 128);
    expect(first.published).toEqual([]);
    expect(b.dispatcher.status().transports[0]?.buckets).toHaveLength(32);
  });
}
