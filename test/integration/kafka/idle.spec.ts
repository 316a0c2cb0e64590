import { Kafka } from 'kafkajs';
import type { OutboxTransport } from '../../../lib/index.js';
import { kafka, type KafkaOptions } from '../../../lib/transports/kafka/index.js';
import { publish } from '../../support/publish.js';
import { eventually, messages, TestTopics } from '../../support/kafka.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { describeUnlessMissing } from '../../support/services.js';

/** Kafka's own are seven days and an hour. */
const FORGETFUL = {
  'transactional.id.expiration.ms': '5000',
  'transaction.remove.expired.transaction.cleanup.interval.ms': '100',
};
const OK = { ok: true };
const AWAY = { ok: false, blame: 'transport', error: expect.objectContaining({ code: 'TRANSPORT_UNAVAILABLE' }) };

describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'a Kafka that forgets producers that are idle', () => {
  let node: KafkaNode;
  const topics = new TestTopics(() => node.config());
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    node = await KafkaNode.start(undefined, FORGETFUL);
    await topics.start();
  });
  afterAll(async () => {
    for (const transport of opened) await transport.close!();
    await topics.stop();
    await node?.stop();
  });

  const open = async (options: Partial<KafkaOptions>) => {
    const transport = await kafka({ client: node.config(), ...options }).create();
    opened.push(transport);
    return transport;
  };
  /** Kafka writes that it has forgotten an id. */
  const isForgotten = async (transactionalId: string): Promise<boolean> => {
    const states = await topics.read('__transaction_state', 1, { readUncommitted: true });
    return states.some(({ key, value }) => value === null && key!.includes(transactionalId));
  };
  /** One message is through, and its producer’s id is forgotten. */
  const usedAndForgotten = async (options: Partial<KafkaOptions>, transactionalId: string) => {
    const topic = await topics.create();
    const transport = await open(options);
    expect(await publish(transport, messages(topic, 1))).toEqual([OK]);
    await eventually('the id is forgotten', () => isForgotten(transactionalId));
    return { topic, transport };
  };

  it.each([
    ['transactional', (transactionalId: string) => ({ transactional: { transactionalId }, producers: 1 })],
    ['fencing', (transactionalId: string) => ({ fencing: { transactionalId } })],
  ])('N9: %s: opens another producer, and nobody hears of it', async (name, options) => {
    const { topic, transport } = await usedAndForgotten(options(name), `${name}-0`);
    expect(await publish(transport, messages(topic, 2))).toEqual([OK, OK]);
    expect(await topics.read(topic, 3)).toHaveLength(3);
  });

  it('N9: fencing: leaves an id alone that was somebody’s since then', async () => {
    const transactionalId = 'taken';
    const { topic, transport } = await usedAndForgotten({ fencing: { transactionalId } }, `${transactionalId}-0`);
    // With a transaction that is open it is not forgotten.
    const other = new Kafka(node.config()).producer({
      transactionalId: `${transactionalId}-0`,
      maxInFlightRequests: 1,
    });
    await other.connect();
    const transaction = await other.transaction();
    await transaction.send({ topic, messages: [{ value: 'of the new owner' }] });
    expect(await publish(transport, messages(topic, 1))).toEqual([AWAY]);
    await other.disconnect();
    const values = (await topics.read(topic, 2, { readUncommitted: true })).map(({ value }) => String(value));
    expect(values).toEqual(['{"n":0}', 'of the new owner']);
  });
});
