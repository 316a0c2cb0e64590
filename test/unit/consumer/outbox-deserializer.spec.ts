import { IncomingRequestDeserializer, KafkaRequestDeserializer } from '@nestjs/microservices';
import { outboxDeserializer, receivedMessage } from 'nestjs-outbox/consumer';

const HEADERS = { id: 'i', type: 't', version: '1', time: '2026-11-24T10:00:00.000Z' };
const record = (value: unknown, headers: unknown = {}) => ({
  topic: 'orders',
  partition: 0,
  offset: '1',
  value,
  headers,
});

const VALUES = [
  ...[undefined, null, '', 'text', 0, 7, true, [], [1], {}, { a: 1 }, { id: 'request', data: 1 }],
  ...[{ pattern: 'p' }, { pattern: 'p', data: null, id: 'x' }, { data: 0 }, { pattern: null }, { topic: 1 }],
  ...[{ __proto__: null, pattern: 'p' }, Object.create(null), Buffer.from('{}')],
];
/** Almost those of a message of the outbox. */
const PROPERTIES = [
  ...[
    undefined,
    {},
    { headers: null },
    { headers: undefined },
    { headers: 'no' },
    { channel: 'c' },
    Object.create(null),
  ],
  { messageId: 'i', contentType: 'application/json', headers: { ...HEADERS, id: 'other' } },
  { messageId: 'i', contentType: undefined, headers: HEADERS },
  { messageId: 'i', contentType: 'application/json', headers: { ...HEADERS, time: 7 } },
  { messageId: 'i', contentType: 'application/json', headers: { ...HEADERS, version: undefined } },
];

describe('outboxDeserializer()', () => {
  it('V5: does with what no outbox sent what Nest does', () => {
    const [ours, nest, nestKafka] = [
      outboxDeserializer(),
      new IncomingRequestDeserializer(),
      new KafkaRequestDeserializer(),
    ];
    for (const options of PROPERTIES)
      for (const value of VALUES) expect(ours.deserialize(value, options)).toEqual(nest.deserialize(value, options));
    const records = [...VALUES.map((value) => record(value)), record(null, { id: 'i' }), record('{}', HEADERS)];
    for (const each of records)
      expect(ours.deserialize(each, { channel: 'orders' })).toEqual(nestKafka.deserialize(each, { channel: 'orders' }));
  });

  it('takes no bytes that are delivered encrypted for JSON', () => {
    const properties = {
      ...{ messageId: 'i', contentType: 'application/json', headers: { ...HEADERS, 'encryption-key-id': 'k' } },
    };
    expect(outboxDeserializer().deserialize('garbage', properties)).toEqual({ pattern: 't', data: undefined });
    const content = Buffer.from([1, 2, 3]);
    expect(receivedMessage({ getMessage: () => ({ content, properties }) })?.payload).toBe(content);
  });
});

describe('receivedMessage()', () => {
  const properties = { messageId: 'i', contentType: 'application/json', headers: HEADERS };

  it('names the message whose payload is labelled JSON and is not', () => {
    const context = { getMessage: () => ({ content: Buffer.from('{'), properties }) };
    expect(() => receivedMessage(context)?.payload).toThrow(
      'The payload of message i (t) is labelled application/json and is not JSON.',
    );
  });

  it('parses once, and only what is read', () => {
    const message = receivedMessage({ getMessage: () => ({ content: Buffer.from('{"a":1}'), properties }) });
    expect(message?.payload).toBe(message?.payload);
    expect(Object.keys(message ?? {})).toEqual(
      expect.arrayContaining(['id', 'type', 'key', 'headers', 'time', 'version']),
    );
  });

  it.each([undefined, null, 'text', {}, { properties: null }, { value: 1, headers: {} }])(
    'knows %p for none of ours',
    (message) => {
      expect(receivedMessage({ getMessage: () => message })).toBeUndefined();
    },
  );
});
