import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { connect as connectTcp } from 'node:net';
import { Logger } from '@nestjs/common';
import { ClientKafka } from '@nestjs/microservices';
import { type Consumer, Kafka, type KafkaMessage, logLevel } from 'kafkajs';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import type { MessageHeaders, OutboxTransport } from '../../../lib/index.js';
import {
  contractMessage,
  probePublish,
  type ReceivedMessage,
  faultsOf,
  publish,
  expectAllOk,
} from '../../support/publish.js';
import { describeTransportContract } from '../../../lib/testing/index.js';
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

function kafkaClient(more: { client?: object } = {}): ClientKafka {
  return new ClientKafka({
    client: { clientId: 'shop', brokers: brokers(), logLevel: logLevel.NOTHING, ...more.client } as never,
    producerOnlyMode: true,
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
    faults: faultsOf(() => proxy),
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
    expectAllOk(await publish(transport, [message]));
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

  it('sends what emit() sends, whatever the record and the serializer are', async () => {
    const topic = await topics.create();
    const serializer = {
      // A serializer of a schema registry asks it, and gives bytes.
      serialize: async (value: object, { pattern }: { pattern: string }) => ({
        key: 'k',
        value: Buffer.from(`${pattern}:${JSON.stringify(value)}`),
        headers: { schema: '7' },
        partition: 0,
      }),
    };
    for (const client of [kafkaClient(), new ClientKafka({ client: { brokers: brokers() }, serializer })]) {
      const record = (): object => ({ key: { of: 'k' }, value: { n: 1 }, headers: { 'x-own': '1' } });
      const transport = await transportOf(client, { record });
      await client.connect();
      await client.emit(topic, record()).toPromise();
      expectAllOk(await publish(transport, [contractMessage({ topic })]));
      await transport.close?.();
      await client.close();
    }
    const sent = (await topics.read(topic, 4)).map(({ key, value, headers }) => ({
      ...{ key: String(key), value: String(value) },
      headers: Object.entries(headers!).map(([name, one]) => [name, String(one)]),
    }));
    const json = { key: '{"of":"k"}', value: '{"n":1}', headers: [['x-own', '1']] };
    const own = {
      key: 'k',
      value: `${topic}:${JSON.stringify({ key: { of: 'k' }, value: { n: 1 }, headers: { 'x-own': '1' } })}`,
    };
    expect(sent).toEqual([json, json, ...Array(2).fill({ ...own, headers: [['schema', '7']] })]);
  });

  it('X1: a record without a value fails its message alone; a topic that a pattern function names is named as missing', async () => {
    const [topic, transport] = [
      await topics.create(),
      await transportOf(
        new ClientKafka({ client: { brokers: brokers() }, serializer: { serialize: (value: unknown) => value } }),
        {
          pattern: ({ type }: { type: string }) => type,
          record: ({ key }: { key: string }) => (key === 'bad' ? { key } : { value: key }),
        },
      ),
    ];
    const batch = [
      contractMessage({ topic: 'unused', type: topic, key: 'good' }),
      contractMessage({ topic: 'unused', type: topic, key: 'bad' }),
      contractMessage({ topic: 'unused', type: `${topic}-missing`, key: 'lost' }),
    ];
    const results = await publish(transport, batch);
    const lost = { ok: false, suspect: 'destination', destination: `topic "${topic}-missing"` };
    expect(results).toMatchObject([{ ok: true }, { ok: false, blame: 'message' }, lost]);
    expect(results.every((result) => result.ok || result.final === undefined)).toBe(true);
    expect(transport.destinationOf!(batch[0]!)).toBe(`topic "${topic}"`);
    await transport.close?.();
  });
});
