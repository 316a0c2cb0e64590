import { randomBytes } from 'node:crypto';
import type { Admin } from 'kafkajs';
import { Kafka } from 'kafkajs';
import type { ExpectedMessages, OutboxTransport } from '../../../lib/index.js';
import { systemClock, type Clock } from '../../../lib/time/clock.js';
import { kafka, type KafkaOptions } from '../../../lib/transports/kafka/index.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { RabbitMqNode } from '../../support/rabbitmq-node.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeUnlessMissing, describeWith, requiredUrl, serviceUrl, type Service } from '../../support/services.js';
import { until } from '../../support/until.js';
import { textsOf } from '../../support/reasons.js';

/** Half a minute between two looks is a moment here. */
const hurried: Clock = {
  ...systemClock,
  after: (ms, action) => systemClock.after(ms > 29_500 && ms <= 30_000 ? 200 : ms, action),
};
const messagesTo = (...topics: string[]): ExpectedMessages[] => topics.map((topic) => ({ topic, options: {} }));

/** A transport whose looks end when the test waits for them. */
function looking(transport: OutboxTransport) {
  const answers: unknown[] = [];
  const { findMissing } = transport;
  transport.findMissing = async (...question) => {
    const found = await Promise.resolve(findMissing!.apply(transport, question)).catch((error: unknown) => error);
    answers.push(found);
    if (found instanceof Error) throw found;
    return found as never;
  };
  return answers;
}

describeWith(['rabbitmq', 'postgres'], 'RabbitMQ destinations that are missing when a relay starts', () => {
  let harness: Harness;
  let observer: RabbitMqObserver;
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  beforeEach(async () => {
    harness = await createHarness('postgres', { pollInterval: 50 });
  });
  afterEach(() => harness?.close());
  afterAll(() => observer.close());

  async function start(options: Partial<RabbitMqOptions>, expected: readonly ExpectedMessages[] = []) {
    const transport = await rabbitmq({ url: requiredUrl('rabbitmq'), ...options }).create();
    const answers = looking(transport);
    const relay = harness.relay({ default: transport }, {}, { clock: hurried, expected: () => expected });
    await relay.dispatcher.start();
    return { ...relay, answers };
  }

  it('R6: an exchange whose name is wrong is told before the first message, and once when it is there', async () => {
    const [exchange, queue] = [observer.unusedName(), await observer.queue()];
    const { dispatcher, hooks, answers } = await start({ exchange });
    const away = await hooks.until('destinationAway');
    expect(away).toMatchObject({ transport: 'default', destination: `exchange "${exchange}"` });
    expect(away.error).toContain(`There is no exchange "${exchange}"`);
    expect(away.error).toContain('`topology`');
    const health = await harness.health(dispatcher);
    expect(health.status).toBe('degraded');
    expect(textsOf(health)).toEqual([expect.stringMatching(new RegExp(`exchange "${exchange}" is missing: `))]);
    // What publishes is not touched.
    const ids = await harness.enqueue([{ topic: queue, options: JSON.stringify({ rabbitmq: { exchange: '' } }) }]);
    await observer.receivedAll(queue, ids);
    await until(() => answers.length > 2);
    expect(hooks.of('destinationAway')).toHaveLength(1);
    await observer.channel.assertExchange(exchange, 'fanout');
    expect(await hooks.until('destinationBack')).toMatchObject({ destination: `exchange "${exchange}"`, putOff: 0 });
    expect((await harness.health(dispatcher)).status).toBe('up');
    const { length } = answers;
    await observer.channel.bindQueue(queue, exchange, '');
    await observer.receivedAll(queue, [...ids, ...(await harness.enqueue([{ topic: 'any' }]))]);
    expect(answers).toHaveLength(length); // nobody asks any more
    for (const name of ['circuitOpened', 'failed', 'retried', 'dead'] as const) expect(hooks.of(name)).toEqual([]);
    expect(hooks.of('destinationBack')).toHaveLength(1);
  });
});

const absent: Service[] = RabbitMqNode.isInstalled ? [] : ['rabbitmq'];
if (serviceUrl('postgres') === undefined) absent.push('postgres');

describeUnlessMissing(absent, 'a RabbitMQ user of few rights and one channel', () => {
  const user = `clerk${randomBytes(4).toString('hex')}`;
  let node: RabbitMqNode;
  let harness: Harness;
  beforeAll(async () => {
    [node, harness] = await Promise.all([RabbitMqNode.start(), createHarness('postgres')]);
    await node.ctl('add_user', user, user);
    await node.ctl('set_permissions', user, '^$', '.*', '^$');
    await node.ctl('set_user_limits', user, '{"max-channels": 1}');
  });
  afterAll(async () => {
    await harness?.close();
    await node?.remove();
  });

  it('R6: is asked nothing that it may not, and what it publishes over stays open', async () => {
    const observer = await RabbitMqObserver.connect(node.url);
    const [exchange, queue] = [await observer.exchange('fanout'), await observer.queue()];
    await observer.channel.bindQueue(queue, exchange, '');
    const url = node.url.replace('guest:guest', `${user}:${user}`);
    const transport = await rabbitmq({ url, exchange }).create();
    const answers = looking(transport);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    await observer.receivedAll(queue, await harness.enqueue([{ topic: 'a' }]));
    await until(() => answers.length > 0);
    await observer.receivedAll(queue, await harness.enqueue([{ topic: 'a' }]));
    expect(hooks.of('destinationAway')).toEqual([]);
    expect(hooks.of('circuitOpened')).toEqual([]);
    await dispatcher.stop();
    await observer.connection.close();
  });
});

const lacking: Service[] = KafkaNode.isInstalled ? [] : ['kafka'];
if (serviceUrl('postgres') === undefined) lacking.push('postgres');

describeUnlessMissing(lacking, 'Kafka topics that are missing when a relay starts', () => {
  let node: KafkaNode;
  let admin: Admin;
  let harness: Harness;
  beforeAll(async () => {
    node = await KafkaNode.start({ clerk: 'clerk' });
    admin = new Kafka(node.config()).admin();
    await admin.connect();
    harness = await createHarness('postgres', { pollInterval: 50 });
  });
  afterAll(async () => {
    await harness?.close();
    await admin?.disconnect();
    await node?.stop();
  });

  async function start(options: Partial<KafkaOptions>, expected: readonly ExpectedMessages[]) {
    const transport = await kafka({ client: node.config(), ...options }).create();
    const answers = looking(transport);
    const relay = harness.relay({ default: transport }, {}, { clock: hurried, expected: () => expected });
    await relay.dispatcher.start();
    return { ...relay, answers };
  }
  const create = (topic: string) => admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] });
  const unused = (): string => `t-${randomBytes(5).toString('hex')}`;

  it('R6: are told before the first message, are not made, and are told once more when they are there', async () => {
    const [there, topic] = [unused(), unused()];
    await create(`shop.${there}`);
    const { dispatcher, hooks, answers } = await start({ topicPrefix: 'shop.' }, messagesTo(there, topic));
    const away = await hooks.until('destinationAway');
    expect(away.destination).toBe(`topic "shop.${topic}"`);
    expect(away.error).toContain(`kafka-topics.sh --create --topic shop.${topic}`);
    await until(() => answers.length > 2);
    expect(await admin.listTopics()).not.toContain(`shop.${topic}`);
    expect(hooks.of('destinationAway')).toHaveLength(1);
    await create(`shop.${topic}`);
    expect(await hooks.until('destinationBack')).toMatchObject({ destination: `topic "shop.${topic}"`, putOff: 0 });
    for (const name of ['circuitOpened', 'failed', 'retried'] as const) expect(hooks.of(name)).toEqual([]);
    await dispatcher.stop();
  });

  it.each([
    ['transactional', { transactional: true }],
    ['fenced', { fencing: { transactionalId: 'shop' } }],
  ] as const)('R6: of a %s transport, too', async (_, options) => {
    const topic = unused();
    const { dispatcher, hooks } = await start(options, messagesTo(topic));
    expect(await hooks.until('destinationAway')).toMatchObject({ destination: `topic "${topic}"` });
    await dispatcher.stop();
  });

  it('R6: a topic that this client may not see is not missing, nor is one that its first message makes or nobody is to ask for', async () => {
    const topic = unused();
    await create(topic);
    const sasl = { mechanism: 'plain', username: 'clerk', password: 'clerk' } as const;
    const client = { ...node.config(), brokers: [node.saslUrl], sasl };
    const denied = await start({ client, idempotent: false }, messagesTo(topic, unused()));
    await until(() => denied.answers.length > 0);
    expect(denied.answers).toEqual([[]]);
    expect(denied.hooks.of('destinationAway')).toEqual([]);
    await denied.dispatcher.stop();
    for (const options of [{ allowAutoTopicCreation: true }, { checkDestinations: false }]) {
      const making = await start(options, messagesTo(unused()));
      await until(() => making.answers.length > 0);
      expect(making.answers).toEqual([[]]);
      await making.dispatcher.stop();
    }
  });
});
