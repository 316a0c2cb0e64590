import type { OutboxDispatcher } from '../../../lib/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { publish } from '../../support/publish.js';
import { kafkaConfig, messages, TestTopics } from '../../support/kafka.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { createHarness, type Harness, type RecordedHooks } from '../../support/relay.js';
import { describeUnlessMissing, describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

const BAD = 40;
/** Some of the good ones, and the next when these are out. */
const [ROUNDS, EACH] = [40, 2];

describeWith(['kafka', 'postgres'], 'topics that Kafka refuses', () => {
  let harness: Harness;
  let running: OutboxDispatcher | undefined;
  const topics = new TestTopics();
  beforeAll(async () => {
    harness = await createHarness('postgres', { retry: { initial: 100, max: 400, maxAttempts: null } });
    await topics.start();
  });
  afterEach(() => running?.stop());
  afterAll(async () => {
    await harness.close();
    await topics.stop();
  });

  /** How fast that is: bench/missing.ts. */
  const trickle = async (topic: string, hooks: RecordedHooks): Promise<void> => {
    const areOut = (ids: readonly string[]): boolean => {
      const out = new Set(hooks.of('published').flatMap((event) => event.ids));
      return ids.every((id) => out.has(id));
    };
    for (let round = 0; round < ROUNDS; round += 1) {
      const rows = Array.from({ length: EACH }, (_, n) => ({ topic, key: `good ${(round * EACH + n) % 20}` }));
      const ids = await harness.enqueue(rows);
      await until(() => areOut(ids), 60_000);
    }
  };

  it('N1: 40 messages to a missing topic leave messages to another one alone, which go out all the time, and health names it', async () => {
    const [good, missing] = [await topics.create(3), TestTopics.name()];
    const { dispatcher, hooks } = harness.relay({ default: await kafka({ client: kafkaConfig() }).create() });
    running = dispatcher;
    await dispatcher.start();
    await harness.enqueue(Array.from({ length: BAD }, (__, n) => ({ topic: missing, key: `bad ${n}` })));
    await trickle(good, hooks);
    expect(dispatcher.status().transports[0]!.away).toMatchObject([{ name: `topic "${missing}"` }]);
    expect(hooks.of('circuitOpened')).toEqual([]);
    expect(new Set(hooks.of('failed').map(({ blame }) => blame))).toEqual(new Set(['transport']));
    await topics.create(1, {}, missing);
    await until(async () => (await harness.count('ready')) + (await harness.count('parked')) === 0);
    expect(await topics.total(missing)).toBe(BAD);
    expect(dispatcher.status().transports[0]!.away).toEqual([]);
  });
});

describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'topics that may not be written to', () => {
  let node: KafkaNode;
  let topics: TestTopics;
  const password = 'of-a-test';
  beforeAll(async () => {
    node = await KafkaNode.start({ writer: password });
    topics = new TestTopics(() => node.config());
    await topics.start();
  });
  afterAll(async () => {
    await topics?.stop();
    await node?.stop();
  });

  it.each([
    ['', {}],
    [', in transactions', { transactional: { transactionalId: 'outbox-apart' } }],
  ])('N1: two of three are refused, what goes to the third is published in the same breath%s', async (_, options) => {
    const [good, denied, hidden] = [await topics.create(), await topics.create(), await topics.create()];
    await node.allow(topics.admin, 'writer', [
      ['WRITE', 'TOPIC', good],
      ['DESCRIBE', 'TOPIC', denied],
      ['WRITE', 'TRANSACTIONAL_ID', '*'],
      ['IDEMPOTENT_WRITE', 'CLUSTER', 'kafka-cluster'],
    ]);
    const sasl = { mechanism: 'plain', username: 'writer', password } as const;
    const client = { ...node.config(), brokers: [node.saslUrl], sasl };
    // The broker hears of rights some time after the controller took them.
    await until(async () => {
      const before = await kafka({ client, ...options }).create();
      const [result] = await publish(before, messages(good, 1));
      await before.close!();
      return result!.ok;
    }, 60_000);
    const transport = await kafka({ client, ...options }).create();
    try {
      const batch = [good, denied, hidden].flatMap((topic) => messages(topic, 3));
      for (let round = 0; round < 2; round += 1) {
        const results = await publish(transport, batch);
        expect(results.map((result) => result.ok || [result.blame, result.destination])).toEqual([
          ...Array.from({ length: 3 }, () => true),
          ...[denied, hidden].flatMap((topic) => Array.from({ length: 3 }, () => ['transport', `topic "${topic}"`])),
        ]);
      }
      // The second time they share no request.
      expect(transport.health!()).toMatchObject({ state: 'connected' });
    } finally {
      await transport.close!();
    }
  });
});
