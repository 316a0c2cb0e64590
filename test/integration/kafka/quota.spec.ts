import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { contractMessage, probePublish } from '../../support/publish.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { TestTopics } from '../../support/kafka.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeUnlessMissing } from '../../support/services.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

const CLIENT = 'over-its-quota';
/** Bytes a second. Kafka lets ten seconds of it pass at once, and waits for the rest. */
const QUOTA = 20_000;
const SIZE = 4_000;
/** Messages: the first ones are worth 26 seconds, so that they wait for longer than a publish may take. */
const [FIRST, SECOND] = [130, 60];

describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'a client that sends more than its Kafka quota', () => {
  let node: KafkaNode;
  let topics: TestTopics;
  let harness: Harness;
  beforeAll(async () => {
    node = await KafkaNode.start();
    topics = new TestTopics(() => node.config());
    await topics.start();
    await node.limit(CLIENT, QUOTA);
    harness = await createHarness('postgres', { publishTimeout: 10_000, lease: 30_000, pollInterval: 100 });
  });
  afterAll(async () => {
    await harness?.close(); // with its relays
    await topics?.stop();
    await node?.stop();
  });

  it('N7: kafka() waits as long as Kafka says, on its connection, which is no outage, and health says why', async () => {
    const topic = await topics.create(3);
    const transport = await kafka({ client: { ...node.config(), clientId: CLIENT } }).create();
    // To a broker that was just started: it connects, and learns all that takes long once.
    const early = await probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 });
    expect(early.results).toEqual([{ ok: true }]);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    const told = new Set<string>();
    const payload = Buffer.alloc(SIZE, 'x');
    const send = (length: number) =>
      harness.enqueue(Array.from({ length }, (_, n) => ({ topic, key: `k${n % 7}`, payload })));
    const through = async (): Promise<boolean> => {
      const { state, detail = '' } = transport.health!();
      if (state === 'blocked') told.add(detail.replace(/\d+/, 'N'));
      const [transportRelay] = dispatcher.status().transports;
      if (transportRelay!.circuit === 'blocked') told.add('blocked');
      return (await harness.count('ready')) + (await harness.count('parked')) === 0;
    };
    await send(FIRST);
    await until(through, 120_000);
    await send(SECOND); // by now it is over
    await until(through, 120_000);
    expect(await topics.total(topic)).toBeGreaterThanOrEqual(1 + FIRST + SECOND);
    expect(hooks.of('circuitOpened')).toEqual([]);
    expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]);
    expect(hooks.of('failed')).toEqual([]);
    expect([...told].sort()).toEqual([
      'Kafka throttles this client for N s more, as it sends more than its quota allows.',
      'blocked',
    ]);
  }, 240_000);
});
