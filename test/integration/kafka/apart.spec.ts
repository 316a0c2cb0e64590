import { kafka } from '../../../lib/transports/kafka/index.js';
import { publish } from '../../support/publish.js';
import { messages, TestTopics } from '../../support/kafka.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { describeUnlessMissing } from '../../support/services.js';
import { until } from '../../support/until.js';

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
