import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { connect as connectTcp } from 'node:net';
import { Controller, type INestMicroservice, Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClientKafka, Ctx, EventPattern, KafkaContext, Payload, Transport } from '@nestjs/microservices';
import { type Consumer, Kafka, type KafkaMessage, logLevel, type Producer } from 'kafkajs';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import type { MessageHeaders } from '../../../lib/outbox-message.js';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { assertAllOk } from '../../../lib/testing/transport-contract/run.js';
import { describeTransportContract } from '../../../lib/testing/transport-contract/contract.js';
import type { ReceivedMessage } from '../../../lib/testing/transport-contract/harness.js';
import { TestTopics } from '../../support/kafka.js';
import { until } from '../../support/until.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

beforeAll(() => Logger.overrideLogger(false));

const random = (): string => randomBytes(6).toString('hex');
const brokers = (): string[] => requiredUrl('kafka').split(',');

/** Topics of this file, and an independent consumer of them. */
class TopicReader {
  readonly messages = new Map<string, KafkaMessage[]>();
  private readonly kafka = new Kafka({ clientId: 'reader', brokers: brokers(), logLevel: logLevel.NOTHING });
  private readonly topics = new TestTopics();
  private readonly consumers: Consumer[] = [];
  private readonly groups: string[] = [];

  start(): Promise<void> {
    return this.topics.start();
  }
  async create(): Promise<string> {
    const topic = await this.topics.create();
    this.messages.set(topic, []);
    return topic;
  }
  async read(topic: string, count: number): Promise<KafkaMessage[]> {
    const messages = this.messages.get(topic)!;
    if (messages.length === 0) await this.consume(topic);
    await until(() => messages.length >= count, 60_000);
    return messages;
  }
  remove(topic: string): Promise<void> {
    return this.topics.remove(topic);
  }
  written(topic: string): Promise<number> {
    return this.topics.total(topic);
  }
  async stop(): Promise<void> {
    await Promise.all(this.consumers.map((consumer) => consumer.disconnect()));
    await this.topics.admin.deleteGroups(this.groups).catch(() => undefined);
    await this.topics.stop();
  }
  private async consume(topic: string): Promise<void> {
    const groupId = `reader-${random()}`;
    const consumer = this.kafka.consumer({ groupId });
    this.consumers.push(consumer);
    this.groups.push(groupId);
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({ eachMessage: async ({ message }) => void this.messages.get(topic)!.push(message) });
  }
}

function kafkaClient(more: { client?: object; producer?: object } = {}): ClientKafka {
  return new ClientKafka({
    client: { clientId: 'shop', brokers: brokers(), logLevel: logLevel.NOTHING, ...more.client } as never,
    producerOnlyMode: true,
    ...(more.producer && { producer: more.producer }),
  });
}
async function transportOf(client: ClientKafka, options: object = {}): Promise<OutboxTransport> {
  return clientProxy({ client, ...options }).create();
}

describeWith('kafka', 'clientProxy() over ClientKafka', () => {
  const topics = new TopicReader();
  let proxy: TcpProxy;
  beforeAll(async () => {
    await topics.start();
    proxy = await TcpProxy.start(brokers()[0]!);
  });
  afterAll(async () => {
    await proxy.close();
    await topics.stop();
  });
  /** Kafka tells clients its own address: every connection goes to the proxy, whatever the metadata say. */
  const throughProxy = {
    client: {
      socketFactory: ({ onConnect }: { onConnect: () => void }) =>
        connectTcp({ host: proxy.host, port: proxy.port }, onConnect),
    },
  };

  describeTransportContract('clientProxy(ClientKafka)', {
    create: () => transportOf(kafkaClient(throughProxy)),
    createTopic: () => topics.create(),
    received: async (topic, count): Promise<ReceivedMessage[]> =>
      (await topics.read(topic, count)).map(({ key, value, headers }) => ({
        id: String(headers!['id']),
        key: key === null ? null : key.toString(),
        payload: value,
        headers: headers as MessageHeaders,
      })),
    poison: (topic) => ({ topic, payload: Buffer.alloc(1_100_000, 'x') }),
    faults: {
      cut: async () => {
        await proxy.refuse();
        proxy.cut();
      },
      loseRequests: () => proxy.set({ up: 'drop' }),
      loseReplies: () => proxy.set({ down: 'drop' }),
      stall: () => proxy.stall(),
      heal: async () => {
        proxy.resume();
        await proxy.accept();
        proxy.heal();
      },
    },
  });

  it('sends key, headers and timestamp of an event that has a key and a value of its own', async () => {
    const [topic, transport] = [await topics.create(), await transportOf(kafkaClient())];
    const begun = Date.now();
    const message = contractMessage({
      topic,
      createdAt: new Date(begun - 86_400_000),
      key: 'o-1',
      payload: '{"key":"trap","value":1}',
      headers: { traceparent: 'tp' },
    });
    assertAllOk(await probePublish(transport, [message], { timeout: 60_000 }));
    const [record] = await topics.read(topic, 1);
    expect(record!.key!.toString()).toBe('o-1');
    expect(record!.value!.toString()).toBe('{"key":"trap","value":1}');
    expect(Number(record!.timestamp)).toBeGreaterThanOrEqual(begun);
    expect(
      Object.fromEntries(Object.entries(record!.headers!).map(([name, value]) => [name, String(value)])),
    ).toMatchObject({
      id: message.id,
      type: 'contract.tested',
      version: '1',
      'content-type': 'application/json',
      traceparent: 'tp',
    });
    await transport.close?.();
  });

  it('C8: does not take the empty answer for a partition that does not exist for a success', async () => {
    const [topic, transport] = [await topics.create(), await transportOf(kafkaClient())];
    const message = contractMessage({ topic, options: { kafka: { partition: 7 } } });
    const { results } = await probePublish(transport, [message], { timeout: 5_000 });
    expect(results[0]).toMatchObject({ ok: false });
    expect(await topics.written(topic)).toBe(0);
    await transport.close?.();
  });

  it('C10: a topic that is deleted is no failure of messages to others, beside it and after it', async () => {
    const [known, gone, fresh] = [await topics.create(), await topics.create(), await topics.create()];
    const transport = await transportOf(kafkaClient({ producer: { metadataMaxAge: 1 } }));
    const sent = async (...to: string[]): Promise<string[]> => {
      const batch = to.map((topic) => contractMessage({ topic }));
      const { results } = await probePublish(transport, batch, { timeout: 60_000 });
      return results.map((result) => (result.ok ? 'ok' : (result.suspect ?? result.blame)));
    };
    expect(await sent(known, gone)).toEqual(['ok', 'ok']);
    await topics.remove(gone);
    expect(await sent(known, known)).toEqual(['ok', 'ok']);
    expect(await sent(fresh)).toEqual(['ok']);
    // Whoever shares an answer about all that are on their way is tried again by itself.
    const [beside, alone] = await sent(known, gone);
    expect(['ok', 'collateral']).toContain(beside);
    expect(alone).toBe('destination');
    expect(await sent(known)).toEqual(['ok']);
    expect(await sent(gone)).toEqual(['destination']);
    await transport.close?.();
  });

  it('sends nothing after the timeout, although kafkajs retries', async () => {
    const client = { ...throughProxy.client, requestTimeout: 1_000 };
    const [topic, transport] = [await topics.create(), await transportOf(kafkaClient({ client }))];
    assertAllOk(await probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 }));
    const before = await topics.written(topic); // two, where an answer took longer than a second
    proxy.set({ up: 'drop' });
    const outcome = await probePublish(transport, [contractMessage({ topic })], { timeout: 500 });
    expect(outcome.results[0]).toMatchObject({ ok: false, blame: 'transport' });
    const accepted = proxy.accepted;
    proxy.heal();
    // kafkajs gives the request up half a second later, and has five retries left, the first within 100 ms.
    await expect(until(() => proxy.accepted > accepted, 2_500)).rejects.toThrow('not so within');
    expect(await topics.written(topic)).toBe(before);
    assertAllOk(await probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 }));
    expect(await topics.written(topic)).toBeGreaterThan(before);
    await transport.close?.();
  });

  it('takes over a client that the application has connected already', async () => {
    const [topic, client] = [await topics.create(), kafkaClient(throughProxy)];
    await client.connect();
    const transport = await transportOf(client);
    assertAllOk(await probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 }));
    proxy.set({ up: 'drop' });
    const outcome = await probePublish(transport, [contractMessage({ topic })], { timeout: 300 });
    expect(outcome.results[0]).toMatchObject({ ok: false, blame: 'transport' });
    proxy.heal();
    expect(await topics.written(topic)).toBe(1);
    await transport.close?.();
  });

  it('C6: an attempt that was given up while the application’s own connection ended does not touch the next one', async () => {
    const [topic, slow] = [await topics.create(), await TcpProxy.start(brokers()[0]!)];
    let way: TcpProxy = slow;
    const socketFactory = ({ onConnect }: { onConnect: () => void }) =>
      connectTcp({ host: way.host, port: way.port }, onConnect);
    const client = kafkaClient({ client: { socketFactory } });
    const producer = (): Producer => (client as unknown as { _producer: Producer })._producer;
    await client.connect();
    const [ofApplication, disconnect] = [producer(), jest.spyOn(producer(), 'disconnect')];
    // Its disconnect waits for the answer.
    slow.set({ down: 'hold' });
    const sent = ofApplication.send({ topic, messages: [{ value: 'of the application' }] });
    await until(() => slow.heldDown > 0);
    const transport = await transportOf(client);
    await expect(transport.connect!(AbortSignal.timeout(100))).rejects.toThrow();
    way = proxy;
    await transport.connect!(AbortSignal.timeout(60_000));
    const ofTransport = producer();
    expect(ofTransport).not.toBe(ofApplication);
    slow.heal();
    await sent;
    await disconnect.mock.results[0]!.value;
    assertAllOk(await probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 }));
    expect(producer()).toBe(ofTransport);
    await transport.close?.();
    await slow.close();
  });
});

const pattern = `outbox-proxy-${random()}`;
const seen: { data: unknown; key: unknown; id: unknown }[] = [];

@Controller()
class OrderEvents {
  @EventPattern<string>(pattern)
  onPlaced(@Payload() data: unknown, @Ctx() context: KafkaContext): void {
    const { key, headers } = context.getMessage();
    seen.push({ data, key, id: headers?.['id'] });
  }
}
@Module({ controllers: [OrderEvents] })
class ConsumerModule {}

describeWith('kafka', 'a Nest Kafka consumer', () => {
  it('gets the event as an object, with key and headers', async () => {
    const topics = new TestTopics();
    await topics.start();
    await topics.create(2, {}, pattern);
    const groupId = `outbox-proxy-${random()}`;
    const app: INestMicroservice = await NestFactory.createMicroservice(ConsumerModule, {
      logger: false,
      transport: Transport.KAFKA,
      options: {
        client: { brokers: brokers(), logLevel: logLevel.NOTHING },
        consumer: { groupId },
        subscribe: { fromBeginning: true },
      },
    });
    await app.listen();
    const transport = await transportOf(kafkaClient());
    const batch = Array.from({ length: 100 }, (_, n) =>
      contractMessage({ topic: pattern, key: `k-${n}`, payload: JSON.stringify({ n }) }),
    );
    assertAllOk(await probePublish(transport, batch, { timeout: 60_000 }));
    const byId = () => new Map(seen.map((each) => [each.id, each]));
    await until(() => byId().size === batch.length);
    expect(byId()).toEqual(new Map(batch.map(({ id, key }, n) => [id, { data: { n }, key, id }])));
    await transport.close?.();
    await app.close();
    await topics.admin.deleteGroups([`${groupId}-server`]).catch(() => undefined);
    await topics.stop();
  });
});
