import { RoutingKeyError } from '../../../../lib/transports/amqp/blame.js';
import { resolveRabbitMqOptions } from '../../../../lib/transports/rabbitmq/option-checks.js';
import { MAX_HEADER_TABLE } from '../../../../lib/transports/amqp/limits.js';
import { createEncoder } from '../../../../lib/transports/rabbitmq/message.js';
import { rabbitmq, type RabbitMqOptions, type RabbitMqTopology } from '../../../../lib/transports/rabbitmq/index.js';
import { contractMessage, type ContractMessageFields } from '../../../support/publish.js';

const encode = (fields: Partial<ContractMessageFields> = {}, options: RabbitMqOptions = {}) =>
  createEncoder(resolveRabbitMqOptions({ url: 'amqp://h', ...options }))(
    contractMessage({ topic: 'orders.created', ...fields }),
  ) as {
    exchange: string;
    routingKey: string;
    content: Buffer;
    properties: Record<string, unknown> & { headers: Record<string, unknown> };
  };

describe('a message for RabbitMQ', () => {
  it('M4: an unknown name in options.rabbitmq is refused at enqueue, and published in a row that holds one', () => {
    const check = (options: object) =>
      rabbitmq({ url: 'amqp://h' }).limits?.check?.({
        ...{ topic: 't', key: null, type: 't', contentType: 'text/plain', payloadBytes: 1, headers: {} },
        options: { rabbitmq: options },
      });
    expect(check({ priorty: 5 })).toBe("options.rabbitmq: priorty is no option (did you mean 'priority'?)");
    expect(check({ ['x'.repeat(1_000)]: 5, routingKey: 'r' })!.length).toBeLessThan(300);
    expect(check({ '': 5 })).toBeDefined();
    expect(check(null as never)).toBe('options.rabbitmq must be an object, not null');
    expect(check([])).toBe('options.rabbitmq must be an object, not an array');
    expect(check({ exchange: 'x', routingKey: 'r', type: 't', correlationId: 'c', replyTo: 'q' })).toBeUndefined();
    expect(check({ priority: 1, expiration: 2 })).toBeUndefined();
    const { properties } = encode({ options: { rabbitmq: { priorty: 5, priority: 1 } as object } });
    expect(properties['priority']).toBe(1);
  });

  it('has its identity in properties and headers', () => {
    const createdAt = new Date('2026-11-21T10:05:01.500Z');
    const { exchange, routingKey, properties } = encode(
      { key: 'k', type: 'order.created', version: 3, createdAt },
      { exchange: 'x', appId: 'shop' },
    );
    expect([exchange, routingKey]).toEqual(['x', 'orders.created']);
    expect(properties).toMatchObject({
      mandatory: true,
      persistent: true,
      type: 'order.created',
      contentType: 'application/json',
      timestamp: createdAt.getTime() / 1000 - 0.5,
      appId: 'shop',
    });
    const { messageId } = properties;
    expect({ ...properties.headers }).toEqual({
      id: messageId,
      type: 'order.created',
      version: '3',
      time: '2026-11-21T10:05:01.500Z',
      key: 'k',
    });
  });

  it('takes the options of the message over those of the transport', () => {
    const rabbit = {
      exchange: 'other',
      routingKey: 'rk',
      priority: 7,
      expiration: 1000,
      type: 't',
      correlationId: 'c',
      replyTo: 'r',
    };
    const { exchange, routingKey, properties } = encode(
      { options: { rabbitmq: rabbit } },
      { exchange: 'x', routingKey: () => 'no' },
    );
    expect([exchange, routingKey]).toEqual(['other', 'rk']);
    expect(properties).toMatchObject({ priority: 7, expiration: 1000, type: 't', correlationId: 'c', replyTo: 'r' });
  });

  it('is a CloudEvent when asked', () => {
    const { properties } = encode({ key: 'k' }, { cloudEvents: { source: '/shop' } });
    expect(properties.headers).toMatchObject({
      'cloudEvents:source': '/shop',
      'cloudEvents:subject': 'k',
      'cloudEvents:id': properties['messageId'],
    });
    expect(properties.headers).not.toHaveProperty('key');
  });

  it.each([
    ['priority', { options: { rabbitmq: { priority: 256 } } }],
    ['expiration', { options: { rabbitmq: { expiration: 1.5 } } }],
    ['options.rabbitmq must be an object', { options: { rabbitmq: null as never } }],
    ['header name', { headers: { ['x'.repeat(256)]: '1' } }],
    ['headers', { headers: { x: 'y'.repeat(MAX_HEADER_TABLE) } }],
    ['headers', { headers: { x: Array.from({ length: 10_000 }, () => '12345') } }],
  ] as const)('is refused before it is sent: %s', (what, fields) => {
    expect(() => encode(fields)).toThrow(what);
  });

  it.each<[string, () => unknown]>([
    ['undefined', () => undefined],
    ['number', () => 7],
    ['a promise', () => Promise.reject(new Error('nobody waits for it'))],
    ['more than 255 bytes', () => 'ä'.repeat(128)],
  ])('is refused, but not for good, when routingKey() gives no key: %s', (what, routingKey) => {
    expect(() => encode({}, { routingKey: routingKey as () => string })).toThrow(
      expect.objectContaining({ constructor: RoutingKeyError, message: expect.stringContaining(what) }),
    );
  });

  it.each(['', 'ä'.repeat(127)])('takes from routingKey() what AMQP can carry', (key) => {
    expect(encode({}, { routingKey: () => key }).routingKey).toBe(key);
  });

  it('never has inherited properties among its headers', () => {
    const { headers } = encode({
      headers: JSON.parse('{"__proto__":"a","constructor":"b"}') as Record<string, string>,
    }).properties;
    expect(Object.getPrototypeOf(headers)).toBeNull();
    expect(headers['__proto__']).toBe('a');
    expect(headers['constructor']).toBe('b');
  });
});

const cloudEvents = (source: unknown) => ({ cloudEvents: { source } });
const queue = (fields: object) => ({ assertQueue: [{ name: 'q', ...fields }] });

describe('rabbitmq() options', () => {
  it.each<[string, RabbitMqOptions]>([
    ['one of them', {}],
    ['one of them', { url: 'amqp://h', urls: ['amqp://i'] }],
    ['must not be empty', { urls: [] }],
    ['must be amqp://', { url: 'http://h' }],
    ['is no option', { url: 'amqp://h', exchnage: 'x' } as RabbitMqOptions],
    ['heartbeat', { url: 'amqp://h', heartbeat: 0 }],
    ['confirmTimeout', { url: 'amqp://h', confirmTimeout: 'soon' as '1s' }],
    ['255 bytes', { url: 'amqp://h', exchange: 'x'.repeat(256) }],
    ['exchange must be a string', { url: 'amqp://h', exchange: 5 as never }],
    [
      "connection.Own is no option (did you mean 'own'?)",
      { connection: { useFactory: jest.fn(), Own: true } as never },
    ],
    ['connection.own must be true or false', { connection: { useFactory: jest.fn(), own: 'yes' as never } }],
  ])('are checked at once: %s', (what, options) => {
    expect(() => rabbitmq(options)).toThrow(what);
  });

  it.each<[string, unknown]>([
    ['appId must be a string of at most 255 bytes', { appId: 'x'.repeat(256) }],
    ['appId must be a string', { appId: 5 }],
    ['the header name CC is reserved', { headers: { CC: ['audit'] } }],
    ['the header name key is reserved', { headers: { key: 'k' } }],
    ['header names with cloudEvents: are reserved', { headers: { 'cloudEvents:id': 'x' }, ...cloudEvents('/shop') }],
    ['a header name is longer than 255 bytes', { headers: { ['x'.repeat(256)]: '1' } }],
    ['its headers take', { headers: { x: 'y'.repeat(MAX_HEADER_TABLE) } }],
    ['its headers take', cloudEvents('y'.repeat(MAX_HEADER_TABLE))],
    ['headers.attempt must be a string, a Uint8Array or an array of those', { headers: { attempt: 1 } }],
    ['headers.many must be', { headers: { many: ['1', 2] } }],
    ['headers must be an object', { headers: new Map([['a', '1']]) }],
    ['headers must be an object', { headers: null }],
    ['cloudEvents must be an object with source', { cloudEvents: true }],
    ['cloudEvents.source must be a string', cloudEvents(undefined)],
    ['cloudEvents.source must be a string, not empty', cloudEvents('')],
    ["cloudEvents.sorce is no option (did you mean 'source'?)", { cloudEvents: { source: '/a', sorce: '/b' } }],
  ])('are refused when no message could be carried with them: %s', (what, options) => {
    expect(() => rabbitmq({ url: 'amqp://h', ...(options as object) })).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTIONS', message: expect.stringContaining(what) }),
    );
  });

  it.each<[string, unknown]>([
    ["topology.assertQueues is no option (did you mean 'assertQueue'?)", { assertQueues: [{ name: 'q' }] }],
    ['topology.assertQueue must be an array', { assertQueue: { name: 'q' } }],
    ['topology.bind must be an array', { bind: null }],
    ['topology.assertQueue[1] must be an object', { assertQueue: [{ name: 'q' }, 'r'] }],
    ['topology.assertQueue[0].durable is no option (there are name, options)', queue({ durable: true })],
    ["topology.assertQueue[0].option is no option (did you mean 'options'?)", queue({ option: { durable: true } })],
    ['topology.assertQueue[0].options must be an object', queue({ options: 'durable' })],
    ['topology.assertExchange[0].type must be a string of at most 255 bytes', { assertExchange: [{ name: 'x' }] }],
    ['topology.bind[0].routingKey must be a string', { bind: [{ queue: 'q', exchange: 'x', routingKey: 5 }] }],
    ['topology must be an object or a function', 'shop'],
    ['topology must be an object or a function', null],
  ])('are refused when the topology would not be what was asked for: %s', (what, topology) => {
    expect(() => rabbitmq({ url: 'amqp://h', topology: topology as RabbitMqTopology })).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTIONS', message: expect.stringContaining(what) }),
    );
  });

  it('tell everything that is wrong together', () => {
    const options = { url: 'amqp://h', exchnage: 'x', Mandatory: true, zzz: 1, heartbeat: 0, maxUnconfirmed: -1 };
    expect(() => rabbitmq(options as RabbitMqOptions)).toThrow(
      expect.objectContaining({
        code: 'INVALID_OPTIONS',
        message: expect.stringMatching(
          /^rabbitmq: exchnage is no option \(did you mean 'exchange'\?\); Mandatory is no option \(did you mean 'mandatory'\?\); zzz is no option \(there are url, .*\); heartbeat must be .*; maxUnconfirmed must be a positive integer\.$/,
        ),
      }),
    );
    expect(() => rabbitmq(undefined as never)).toThrow(
      "rabbitmq: options are undefined; must be an object with 'url'.",
    );
  });

  it('warn of what loses messages that count as published', () => {
    const warnings = (options: Partial<RabbitMqOptions>) => rabbitmq({ url: 'amqp://h', ...options }).warnings;
    expect(warnings({})).toEqual([]);
    expect(warnings({ mandatory: false })).toEqual([expect.stringContaining('no queue takes is lost')]);
    expect(warnings({ persistent: false })).toEqual([expect.stringContaining('restart of the broker drops')]);
  });

  it('warn of an exchange that routes later than it takes, as it returns what it delivers', () => {
    const ofType = (type: string, mandatory?: boolean) =>
      rabbitmq({
        url: 'amqp://h',
        topology: { assertExchange: [{ name: 'x', type }] },
        ...(mandatory === undefined ? {} : { mandatory }),
      }).warnings?.filter((text) => text.includes('again and again'));
    expect([ofType('topic'), ofType('x-delayed-message', false)]).toEqual([[], []]);
    expect(ofType('x-delayed-message')).toEqual([
      expect.stringMatching(/the exchange 'x' \(x-delayed-message\).*`delay` or `deliverAt` of the outbox/),
    ]);
  });

  it('never show a password', () => {
    expect(() => rabbitmq({ url: 'amqps//user:secret@host' })).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining('secret') }),
    );
  });

  const MISREAD = ['amqp://user:sw@xq/fish@host', 'amqp://user:sw@xq?fish@host', 'amqp://user:1#fish@host/shop'];
  const REFUSED = {
    code: 'INVALID_OPTIONS',
    message: expect.stringMatching(/^(?!.*(?:xq|fish)).*written %40, \/ %2F, \? %3F, # %23/),
  };

  it.each([...MISREAD, 'amqp://user:sw/xqfish@host'])(
    'refuse a URL whose password has a bare delimiter, of which a part would pass for the host: %s',
    async (url) => {
      expect(() => rabbitmq({ url })).toThrow(expect.objectContaining(REFUSED));
      const transport = await rabbitmq({ url: async () => url }).create();
      await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toMatchObject(REFUSED);
    },
  );

  it('leave the definition inert, with its limits known', () => {
    expect(rabbitmq({ url: 'amqp://h' })).toMatchObject({
      kind: 'rabbitmq',
      receipt: 'broker',
      limits: { topicBytes: 255, payloadBytes: 2 ** 24 },
    });
    expect(rabbitmq({ url: 'amqp://h', routingKey: () => 'x' }).limits).not.toHaveProperty('topicBytes');
  });
});
