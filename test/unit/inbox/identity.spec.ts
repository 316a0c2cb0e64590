import { receivedMessage } from '../../../lib/consumer/index.js';
import { identityOf, messageAmong, placeOf } from '../../../lib/inbox/identity.js';
import { OutboxMessage } from '../../../lib/index.js';

const id = '01990000-0000-7000-8000-000000000001';
const labels = { id, type: 'order.placed', version: '1', time: '2026-11-30T10:00:00.000Z' };
const amqp = {
  content: Buffer.from('{}'),
  fields: { routingKey: 'orders' },
  properties: { messageId: id, contentType: 'application/json', headers: { ...labels, key: 'order-1' } },
};
const record = {
  key: Buffer.from('order-1'),
  value: Buffer.from('{}'),
  headers: Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, Buffer.from(value)])),
};
const decoded = {
  topic: 'orders',
  partition: 0,
  key: 'order-1',
  value: {},
  headers: { ...labels, 'content-type': 'application/json' },
};
const cloud = { properties: { messageId: id, headers: { 'cloudEvents:id': id, 'cloudEvents:subject': 'order-1' } } };

describe('identityOf', () => {
  it.each([
    ['a message of amqplib', amqp],
    ['a CloudEvent in AMQP', cloud],
    ['a record of kafkajs', record],
    ['the argument of eachMessage', { topic: 'orders', partition: 0, message: record }],
    ['a context of Nest on RabbitMQ', { getMessage: () => amqp }],
    ['a context of Nest on Kafka', { getMessage: () => decoded }],
    ['what @Received() gives', { id, type: 'order.placed', contentType: 'application/json', key: 'order-1' }],
  ])('reads id and key of %s', (_, message) => {
    expect(identityOf(message)).toEqual({ id, key: 'order-1' });
  });

  it('takes an id of another producer', () => {
    expect(identityOf('order-1/placed')).toEqual({ id: 'order-1/placed', key: null });
    expect(identityOf({ properties: { messageId: 'm-1', headers: undefined } })).toEqual({ id: 'm-1', key: null });
  });

  it.each([
    ['a payload with an id of its own', { id: 'order-1', total: 1 }],
    ['nothing', undefined],
    ['a number', 7],
    ['a message without an id', { properties: { headers: {} } }],
    ['a context without a message', { getMessage: () => undefined }],
    ['no characters', ''],
    ['a blank behind it', 'a '],
    ['too many characters', 'a'.repeat(201)],
  ])('refuses %s', (_, message) => {
    expect(() => identityOf(message)).toThrow('inbox.once: ');
  });
});

describe('messageAmong', () => {
  const file = { id: 'file-1', type: 'invoice', contentType: 'application/pdf' };
  const request = { headers: { id: 'request-1' } };
  const stored = Object.assign(Object.create(OutboxMessage.prototype) as object, {
    ...{ id, type: 'order.placed', contentType: 'application/json', key: null },
  });

  it.each([
    ['what @Received() gives', receivedMessage({ getMessage: () => amqp })],
    ['a context of Nest on RabbitMQ', { getMessage: () => amqp }],
    ['a context of Nest on Kafka', { getMessage: () => decoded }],
    ['a message of amqplib', amqp],
    ['the message of @OnOutboxEvent', stored],
  ])('takes %s for the message, and no payload that looks like one', (_, message) => {
    expect(messageAmong([file, message])).toBe(message);
    expect(messageAmong([request, message])).toBe(message);
  });

  it('takes what has an id where nothing is surer', () => {
    expect(messageAmong([{ orderId: 1 }, record])).toBe(record);
    expect(messageAmong([{ id: 'order-1' }])).toBeUndefined();
  });
});

describe('placeOf', () => {
  const of = (key: string | null, latest: unknown) => placeOf({ id, key }, latest).place;

  it('compares sequences as numbers, and ids as they were made', () => {
    expect([of('k', 9), of('k', '10'), of('k', 2n ** 60n)]).toEqual(['9', '10', String(2n ** 60n)]);
    const later = placeOf({ id: '01990000-0001-7000-8000-000000000000', key: 'k' }, true).place;
    expect(BigInt(later) > BigInt(of('k', true))).toBe(true);
  });

  it.each([
    ['without a key', null, 1],
    ['a fraction', 'k', 1.5],
    ['more digits than the column has', 'k', '1'.repeat(40)],
    ['text', 'k', 'v1'],
    ['false', 'k', false],
  ])('refuses %s', (_, key, latest) => {
    expect(() => of(key, latest)).toThrow('inbox.once: ');
  });
});
