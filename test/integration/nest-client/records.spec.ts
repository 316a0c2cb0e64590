import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientRMQ, RmqRecord } from '@nestjs/microservices';
import { clientProxy, type ClientProxyOptions, type ClientProxyRecord } from 'nestjs-outbox/client-proxy';
import type { OutboxMessage, OutboxTransport } from '../../../lib/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { QueueReader } from '../../support/queue-reader.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

// What a `record` function may give.
const object = ({ topic }: OutboxMessage): unknown => ({ topic });
const nestRecord = ({ topic }: OutboxMessage): unknown =>
  new RmqRecord({ topic }, { headers: { 'x-own': '1' }, priority: 3, mandatory: false });
const ownId = ({ topic }: OutboxMessage): unknown =>
  new RmqRecord({ topic }, { messageId: `own-${topic}`, persistent: false });

describeWith('rabbitmq', 'clientProxy() over ClientRMQ, whatever the record is', () => {
  let reader: QueueReader;
  let transport: OutboxTransport | undefined;
  beforeEach(async () => {
    reader = await new QueueReader().start();
  });
  afterEach(async () => {
    await transport?.close?.();
    await reader.stop();
  });
  const start = async (record: ClientProxyRecord | undefined, more: object = {}): Promise<OutboxTransport> => {
    const urls = [requiredUrl('rabbitmq')];
    const client = new ClientRMQ({ urls, queue: reader.queue, queueOptions: { durable: true }, ...more });
    const options: ClientProxyOptions = { client, ...(record === undefined ? {} : { record }) };
    return (transport = await clientProxy(options).create());
  };
  const publish = async (message: OutboxMessage): Promise<unknown> =>
    (await probePublish(transport!, [message], { timeout: 60_000 })).results[0];

  const records: [string, ClientProxyRecord | undefined][] = [
    ['auto', undefined],
    ['kafka', 'kafka'],
    ['plain', 'plain'],
    ['a function that gives a value', object],
    ['a function that gives a record of Nest', nestRecord],
    ['a function that promises a value', async (message) => object(message)],
    ['a function that gives a record with an id of its own', ownId],
  ];

  it.each(records)('C8, X1: what no queue takes is a failure, of its destination: %s', async (_name, record) => {
    await start(record);
    expect(await publish(contractMessage({ topic: 't' }))).toEqual({ ok: true });
    await reader.drop();
    expect(await publish(contractMessage({ topic: 't' }))).toMatchObject({
      ok: false,
      blame: 'transport',
      suspect: 'destination',
      destination: `queue "${reader.queue}"`,
      certain: true,
      error: { code: 'PUBLISH_REJECTED' },
    });
  });

  it.each(records.slice(0, 6))('is persistent and has the id of the message: %s', async (_name, record) => {
    await start(record, { persistent: false });
    const message = contractMessage({ topic: 't' });
    expect(await publish(message)).toEqual({ ok: true });
    await until(() => reader.messages.length === 1);
    expect(reader.messages[0]!.properties).toMatchObject({ deliveryMode: 2, messageId: message.id });
  });

  it('K4: what a record function promises is what the consumer gets', async () => {
    await start(async ({ topic }) => nestRecord({ topic } as OutboxMessage));
    expect(await publish(contractMessage({ topic: 'promised' }))).toEqual({ ok: true });
    await until(() => reader.messages.length === 1);
    expect(reader.packets()[0]).toMatchObject({ pattern: 'promised', data: { topic: 'promised' } });
  });

  it('keeps what a record of the application says', async () => {
    const first = await start(nestRecord);
    expect(await publish(contractMessage({ topic: 't' }))).toEqual({ ok: true });
    await first.close?.();
    await start(ownId);
    expect(await publish(contractMessage({ topic: 'u' }))).toEqual({ ok: true });
    await until(() => reader.messages.length === 2);
    const [ofNest, withId] = reader.messages.map(({ properties }) => properties);
    expect(ofNest).toMatchObject({ priority: 3, headers: { 'x-own': '1' } });
    expect(withId).toMatchObject({ messageId: 'own-u', deliveryMode: 1 });
    expect(reader.packets().map(({ data }) => data)).toEqual([{ topic: 't' }, { topic: 'u' }]);
  });

  it('N5: a serializer that promises is waited for; what it fails with is the message’s, or nobody’s', async () => {
    const errors: Record<string, Error> = {
      type: new TypeError('x'),
      net: Object.assign(new Error('x'), { code: 'ECONNREFUSED' }),
    };
    const serialize = async (packet: { pattern: string }): Promise<unknown> => {
      const error = errors[packet.pattern];
      if (error !== undefined) throw error;
      return packet;
    };
    await start('plain', { serializer: { serialize } });
    expect(await publish(contractMessage({ topic: 't' }))).toEqual({ ok: true });
    await until(() => reader.messages.length === 1);
    expect(reader.packets()).toEqual([{ pattern: 't', data: {} }]);
    expect(await publish(contractMessage({ topic: 'type' }))).toMatchObject({ ok: false, blame: 'message' });
    expect(await publish(contractMessage({ topic: 'net' }))).toMatchObject({ blame: 'transport', suspect: 'message' });
  });

  it('keeps what a serializer of the application makes, its toJSON() included', async () => {
    class Packet {
      constructor(readonly packet: { data: unknown }) {}
      toJSON(): unknown {
        return { pattern: 'shop', data: { wrapped: this.packet.data } };
      }
    }
    const serializer = { serialize: (packet: { data: unknown }) => new Packet(packet) };
    await start('plain', { serializer });
    const message = contractMessage({ topic: 't', payload: '{"n":1}' });
    expect(await publish(message)).toEqual({ ok: true });
    await until(() => reader.messages.length === 1);
    expect(reader.packets()).toEqual([{ pattern: 'shop', data: { wrapped: { n: 1 } } }]);
    expect(reader.messages[0]!.properties).toMatchObject({ deliveryMode: 2, messageId: message.id });
  });
});
