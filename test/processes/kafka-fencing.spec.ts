import type { ChildProcess } from 'node:child_process';
import { kafka } from '../../lib/transports/kafka/index.js';
import { eventually, kafkaConfig, TestTopics } from '../support/kafka.js';
import { createHarness, type Harness } from '../support/relay.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/until.js';
import { end, expireLeases, NO_WRITERS, startRelay } from './fleet.js';

/** Milliseconds, longer than the test: it decides what is late. */
const PATIENT = { lease: 600_000, publishTimeout: 300_000 };
/** Milliseconds. */
const NEVER = 60_000;

/**
 * The one thing that no lease prevents: bytes of a frozen relay that left it in time and reach the broker when somebody
 * else has published on. A proxy keeps its produce request back until then.
 */
describeWith(['postgres', 'kafka'], 'B1: a produce request of a frozen relay that arrives after the takeover', () => {
  const topics = new TestTopics();
  let harness: Harness;
  let proxy: TcpProxy;
  let zombie: ChildProcess | undefined;
  beforeAll(() => topics.start());
  afterAll(() => topics.stop());
  beforeEach(async () => {
    harness = await createHarness('postgres', { buckets: 1, ordering: 'key', ...PATIENT });
    proxy = await TcpProxy.start(requiredUrl('kafka').split(',')[0]!);
  });
  afterEach(async () => {
    zombie?.kill('SIGCONT');
    if (zombie !== undefined) await end(zombie, 'SIGKILL');
    await harness.close();
    await proxy.close();
  });

  /** Its request is held; when this resolves the lease is over and another relay has published `1` and `2`. */
  async function takeOver(topic: string, fencing?: { transactionalId: string }): Promise<void> {
    const url = harness.database.url;
    const kafkaSettings = { port: proxy.port, ...(fencing === undefined ? {} : { fencing }) };
    const { lease, publishTimeout } = PATIENT;
    const settings = { ...NO_WRITERS, url, ledger: '', lease, relayOptions: { publishTimeout } };
    zombie = await startRelay({ ...settings, kafka: kafkaSettings });
    const enqueue = (text: string) => harness.enqueue([{ topic, key: 'k', payload: Buffer.from(text) }]);
    await enqueue('0');
    await until(async () => (await harness.count('ready')) === 0, NEVER);
    if (fencing === undefined) {
      proxy.set({ up: 'hold' });
      await enqueue('1');
    } else {
      // The broker hears that the transaction writes to the partition; what is held is the records themselves.
      const before = proxy.bytesUp;
      proxy.set({ down: 'hold' });
      await enqueue('1');
      await eventually('the transaction has its partition', () => proxy.bytesUp > before, NEVER);
      proxy.set({ up: 'hold', down: 'forward' });
    }
    await eventually('a request is held', () => proxy.heldUp > 0, NEVER);
    zombie.kill('SIGSTOP');
    await enqueue('2');
    // It stands still, so that its own clock does not matter; the database's says that its time is over.
    await expireLeases(harness.dataSource);
    const transport = await kafka({ client: kafkaConfig(), ...(fencing === undefined ? {} : { fencing }) }).create();
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    await until(async () => (await harness.count('ready')) === 0, NEVER);
  }

  /** What is in the log, committed or not. */
  const raw = async (topic: string, count: number): Promise<string[]> =>
    (await topics.read(topic, count, { readUncommitted: true })).map(({ value }) => String(value));

  it('is appended without fencing, out of order: 0 1 2 1', async () => {
    const topic = await topics.create();
    await takeOver(topic);
    expect(await raw(topic, 3)).toEqual(['0', '1', '2']);
    proxy.heal();
    await eventually('the request arrived', async () => (await topics.total(topic)) === 4, NEVER);
    expect(await raw(topic, 4)).toEqual(['0', '1', '2', '1']);
  });

  it('is refused with fencing, for every reader', async () => {
    const topic = await topics.create();
    await takeOver(topic, { transactionalId: topic });
    expect(proxy.heldUp).toBeGreaterThan(0);
    const replied = proxy.bytesDown;
    proxy.heal();
    await eventually('the broker answered the request', () => proxy.bytesDown > replied, NEVER);
    await harness.enqueue([{ topic, key: 'k', payload: Buffer.from('3') }]);
    await until(async () => (await harness.count('ready')) === 0, NEVER);
    zombie?.kill('SIGCONT');
    expect(await raw(topic, 4)).toEqual(['0', '1', '2', '3']);
    expect((await topics.read(topic, 4)).map(({ value }) => String(value))).toEqual(['0', '1', '2', '3']);
  });
});
