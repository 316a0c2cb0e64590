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

  it('R6: so are the queues and exchanges to which event classes send, each once, and no others', async () => {
    const [there, queue, exchange] = [await observer.queue(), observer.unusedName(), observer.unusedName()];
    const { hooks, answers } = await start({}, [
      ...messagesTo(there, queue, queue),
      { topic: 'any', options: { rabbitmq: { exchange } } },
      { topic: 'any', options: { rabbitmq: { exchange: 'amq.topic' } } },
      { topic: 'unknown', options: null },
    ]);
    await until(() => answers.length > 0);
    const told = hooks.of('destinationAway').map(({ destination }) => destination);
    expect(told).toEqual([`queue "${queue}"`, `exchange "${exchange}"`]);
    expect(hooks.of('destinationAway')[0]?.error).toContain('Declare it. If `topology` of rabbitmq() declares it');
  });

  it('R6: nothing is asked with checkDestinations: false', async () => {
    const { hooks, answers } = await start({ exchange: observer.unusedName(), checkDestinations: false });
    await until(() => answers.length > 0);
    expect([answers, hooks.of('destinationAway')]).toEqual([[[]], []]);
    expect(() => rabbitmq({ url: 'amqp://a', checkDestinations: 'no' as never })).toThrow('must be true or false');
  });

  it('R6: what was put off for it meanwhile goes out when a look finds it, and that is told once', async () => {
    const [exchange, queue] = [observer.unusedName(), await observer.queue()];
    const { hooks, dispatcher } = await start({ exchange });
    await hooks.until('destinationAway');
    const ids = await harness.enqueue([{ topic: 'a' }, { topic: 'b' }]);
    await until(() => (dispatcher.status().transports[0]?.away[0]?.putOff ?? 0) > 0);
    expect(dispatcher.status().transports[0]?.away).toHaveLength(1);
    await observer.channel.assertExchange(exchange, 'fanout');
    await observer.channel.bindQueue(queue, exchange, '');
    await observer.receivedAll(queue, ids);
    expect(hooks.of('destinationAway')).toHaveLength(1);
    await until(() => hooks.of('destinationBack').length === 1 && dispatcher.status().transports[0]?.away.length === 0);
  });

  it('R8: what only a message knew to be missing is back when it is there, though the message is gone', async () => {
    const exchange = observer.unusedName();
    const { hooks, dispatcher, answers } = await start({ exchange: '' });
    await harness.enqueue([{ topic: 'any', options: JSON.stringify({ rabbitmq: { exchange } }) }]);
    const destination = `exchange "${exchange}"`;
    expect(await hooks.until('destinationAway')).toMatchObject({ destination });
    await until(async () => (await harness.count('parked')) === 1);
    await harness.dataSource.query('delete from outbox_parked'); // as another instance that has its bucket now
    await until(() => JSON.stringify(answers.at(-1)).includes(exchange));
    await observer.channel.assertExchange(exchange, 'fanout');
    expect(await hooks.until('destinationBack')).toMatchObject({ destination });
    expect(dispatcher.status().transports[0]?.away).toEqual([]);
  });
});

const absent: Service[] = RabbitMqNode.isInstalled ? [] : ['rabbitmq'];
if (serviceUrl('postgres') === undefined) absent.push('postgres');

describeUnlessMissing(absent, 'a RabbitMQ user of few rights and two channels', () => {
  const user = `clerk${randomBytes(4).toString('hex')}`;
  let node: RabbitMqNode;
  let harness: Harness;
  beforeAll(async () => {
    [node, harness] = await Promise.all([RabbitMqNode.start(), createHarness('postgres')]);
    await node.ctl('add_user', user, user);
    await node.ctl('set_permissions', user, '^$', '.*', '^$');
    await node.ctl('set_user_limits', user, '{"max-channels": 2}');
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
