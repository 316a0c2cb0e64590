import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientKafka } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import type { OutboxTransport } from '../../../lib/index.js';
import { kafkaConfig, kafkaThrough, TestTopics } from '../../support/kafka.js';
import { describeKafkaContract } from '../../support/kafka-contract.js';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';
import { describeWith } from '../../support/services.js';

beforeAll(() => Logger.overrideLogger(false));

async function transportOf(client: ClientKafka, options: object = {}): Promise<OutboxTransport> {
  return clientProxy({ client, ...options }).create();
}

describeWith('kafka', 'clientProxy() over ClientKafka', () => {
  const topics = new TestTopics();
  beforeAll(() => topics.start());
  afterAll(() => topics.stop());
  const client = (): ClientKafka => new ClientKafka({ client: kafkaConfig() as never, producerOnlyMode: true });

  describeKafkaContract('clientProxy(ClientKafka)', (proxy) =>
    clientProxy({ client: new ClientKafka({ client: kafkaThrough(proxy) as never, producerOnlyMode: true }) }),
  );

  it('sends key, headers and timestamp of an event that has a key and a value of its own', async () => {
    const [topic, transport] = [await topics.create(), await transportOf(client())];
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
    const own = new ClientKafka({ client: kafkaConfig() as never, serializer });
    for (const each of [client(), own]) {
      const record = (): object => ({ key: { of: 'k' }, value: { n: 1 }, headers: { 'x-own': '1' } });
      const transport = await transportOf(each, { record });
      await each.connect();
      await each.emit(topic, record()).toPromise();
      expectAllOk(await publish(transport, [contractMessage({ topic })]));
      await transport.close?.();
      await each.close();
    }
    const sent = (await topics.read(topic, 4)).map(({ key, value, headers }) => ({
      ...{ key: String(key), value: String(value) },
      headers: Object.entries(headers!).map(([name, one]) => [name, String(one)]),
    }));
    const json = { key: '{"of":"k"}', value: '{"n":1}', headers: [['x-own', '1']] };
    const serialized = {
      key: 'k',
      value: `${topic}:${JSON.stringify({ key: { of: 'k' }, value: { n: 1 }, headers: { 'x-own': '1' } })}`,
    };
    expect(sent).toEqual([json, json, ...Array(2).fill({ ...serialized, headers: [['schema', '7']] })]);
  });

  it('X1: a record without a value fails its message alone; a topic that a pattern function names is named as missing', async () => {
    const [topic, transport] = [
      await topics.create(),
      await transportOf(
        new ClientKafka({ client: kafkaConfig() as never, serializer: { serialize: (value: unknown) => value } }),
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
