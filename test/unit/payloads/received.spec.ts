import 'reflect-metadata';
import { gzipSync } from 'node:zlib';
import { KafkaParser } from '@nestjs/microservices/helpers/kafka-parser.js';
import { outboxDeserializer, receivedMessage } from 'nestjs-outbox/consumer';
import { refusal } from '../../support/enqueue.js';

const ORDER = { id: 'CANARY', lines: Array.from({ length: 500 }, (_, n) => `line ${n}`) };
const BYTES = gzipSync(JSON.stringify(ORDER));
const STANDARD = { id: 'i', type: 'order.placed', version: '1', time: '2026-11-24T10:00:00.000Z' };
const GZIP = { 'content-encoding': 'gzip' };
const TOO_LARGE = 'The payload of message i (order.placed) has more than 1024 bytes when it is decompressed.';
const DAMAGED = 'The payload of message i (order.placed) is labelled gzip, and is none or is cut.';

interface Given {
  readonly contentType?: string;
  readonly headers?: object;
  readonly keepBinary?: boolean;
  readonly maxBytes?: number;
}
/** As amqplib gives a message, and as a server of Nest then asks its deserializer. */
const amqp = (content: Buffer, { contentType = 'application/json', headers = GZIP, ...options }: Given = {}) => {
  const properties = { messageId: 'i', contentType, headers: { ...STANDARD, ...headers } };
  const body: unknown = content.toString();
  const packet = outboxDeserializer(options).deserialize(body, properties);
  return { packet, message: receivedMessage({ getMessage: () => ({ content, properties }) })! };
};
/** As kafkajs gives a record, which Nest's own parser reads. */
const kafka = (
  value: Buffer | null,
  { keepBinary = true, headers = GZIP, contentType = 'application/json', ...options }: Given = {},
) => {
  const all = { ...STANDARD, 'content-type': contentType, ...headers };
  const texts = Object.fromEntries(Object.entries(all).map(([name, text]) => [name, Buffer.from(String(text))]));
  const record: unknown = new KafkaParser({ keepBinary }).parse({
    value,
    headers: texts,
    topic: 'orders',
    partition: 0,
  });
  const packet = outboxDeserializer(options).deserialize(record, { channel: 'orders' });
  return { packet, message: receivedMessage({ getMessage: () => record })! };
};

describe('a compressed payload at a Nest consumer', () => {
  it('of RabbitMQ is the value of @Received(), and nothing as @Payload(): Nest does not keep the bytes', () => {
    const { packet, message } = amqp(BYTES);
    expect(packet).toEqual({ pattern: 'order.placed', data: undefined });
    expect(message).toMatchObject({ payload: ORDER, bytes: BYTES, contentEncoding: 'gzip' });
  });

  it('of Kafka is the value of both, with keepBinary', () => {
    const { packet, message } = kafka(BYTES);
    expect(packet).toEqual({ pattern: 'orders', data: ORDER });
    expect(message).toMatchObject({ payload: ORDER, bytes: BYTES, contentEncoding: 'gzip' });
  });

  it('of Kafka without keepBinary is lost, and @Received() says what to set', async () => {
    const { packet, message } = kafka(BYTES, { keepBinary: false });
    expect(packet).toEqual({ pattern: 'orders', data: undefined });
    expect((await refusal(() => message.payload)).message).toMatch(/set parser: \{ keepBinary: true \}/);
  });

  it('that came through Debezium, which has all headers in one, is read as well', () => {
    const headers = { headers: JSON.stringify({ tenant: 'a', ...GZIP }) };
    const { packet, message } = kafka(BYTES, { headers });
    expect([packet, message.payload]).toEqual([{ pattern: 'orders', data: ORDER }, ORDER]);
    const text = {
      topic: 'orders',
      partition: 0,
      value: BYTES,
      headers: { ...STANDARD, 'content-type': 'x/y', ...headers },
    };
    expect(receivedMessage({ getMessage: () => text })).toMatchObject({ contentEncoding: 'gzip' });
    for (const broken of ['{"content-encoding"', 'null', '"content-encoding"'])
      expect(kafka(Buffer.from('{}'), { headers: { headers: broken } }).message).toMatchObject({
        payload: {},
        contentEncoding: null,
      });
  });

  it('that is not JSON is text or bytes, decompressed', () => {
    const text = gzipSync('text');
    expect(amqp(text, { contentType: 'text/plain' }).message.payload).toBe('text');
    expect(kafka(text, { contentType: 'text/plain' }).message.payload).toBe('text');
    expect(kafka(text, { contentType: 'avro/binary' })).toMatchObject({
      packet: { data: Buffer.from('text') },
      message: { payload: Buffer.from('text'), bytes: text },
    });
  });

  it('is bounded by maxBytes of the deserializer, also for @Received()', async () => {
    for (const { message } of [amqp(BYTES, { maxBytes: 1_024 }), kafka(BYTES, { maxBytes: 1_024 })])
      expect((await refusal(() => message.payload)).message).toBe(TOO_LARGE);
    expect(kafka(BYTES, { maxBytes: 1_024 }).packet).toEqual({ pattern: 'orders', data: BYTES });
    const bomb = gzipSync(Buffer.alloc(17 * 2 ** 20));
    expect(kafka(bomb).packet).toEqual({ pattern: 'orders', data: bomb });
    for (const { message } of [amqp(bomb), kafka(bomb)])
      expect((await refusal(() => message.payload)).message).toMatch(/more than 16777216 bytes/);
    expect(() => outboxDeserializer({ maxBytes: 0 })).toThrow('outboxDeserializer(): maxBytes must be a whole number');
  });

  it('that is damaged, or no gzip at all, is told by @Received() alone, which quotes nothing', async () => {
    for (const bytes of [BYTES.subarray(0, 40), Buffer.from('{}'), Buffer.alloc(0)]) {
      expect(kafka(bytes).packet).toMatchObject({ pattern: 'orders' });
      for (const { message } of [amqp(bytes), kafka(bytes)]) {
        expect((await refusal(() => message.payload)).message).toBe(DAMAGED);
        expect(message.bytes).toEqual(bytes);
      }
    }
  });

  it('stays as it is where it is delivered encrypted, and as a tombstone', () => {
    const headers = { ...GZIP, 'encryption-key-id': 'k' };
    for (const { message } of [amqp(BYTES, { headers }), kafka(BYTES, { headers })])
      expect(message).toMatchObject({ payload: BYTES, contentEncoding: null });
    expect(kafka(null)).toMatchObject({ packet: { data: null }, message: { payload: null, contentEncoding: null } });
    expect(amqp(Buffer.alloc(0), { headers: { ...GZIP, tombstone: 'true' } }).packet).toMatchObject({ data: null });
  });

  it.each([['br'], [''], [{}], [null], [Object.create(null)]])(
    'another encoding, %p, is nobody’s business',
    (encoding) => {
      const { packet } = amqp(Buffer.from('7'), { headers: { 'content-encoding': encoding } });
      expect(packet).toEqual({ pattern: 'order.placed', data: '7' });
    },
  );
});
