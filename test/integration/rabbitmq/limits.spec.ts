import {
  type HeaderValue,
  type OutboxMessage,
  type OutboxTransport,
  type PublishResult,
  OutboxMessageError,
} from '../../../lib/index.js';
import { MAX_HEADER_VALUES } from '../../../lib/enqueue/headers.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { enqueued } from '../../support/enqueue.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';

const long = (bytes: number): string => 'x'.repeat(bytes);
/** As many names as that, of `bytes` in all, name and value. */
const many = (count: number, bytes: number): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`h${i}`.padEnd(5, '_'), long(bytes / count - 5)]));

describeWith('rabbitmq', 'what RabbitMQ can carry', () => {
  let observer: RabbitMqObserver;
  let exchange: string;
  let queue: string;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    exchange = await observer.exchange('fanout');
    queue = await observer.queue();
    await observer.channel.bindQueue(queue, exchange, '');
  });
  afterAll(async () => {
    await Promise.all(opened.map((transport) => transport.close?.()));
    await observer.close();
  });

  const define = (options: Partial<RabbitMqOptions> = {}) =>
    rabbitmq({ url: requiredUrl('rabbitmq'), exchange, ...options });
  async function publish(
    options: Partial<RabbitMqOptions>,
    ...batch: OutboxMessage[]
  ): Promise<readonly PublishResult[]> {
    const transport = await define(options).create();
    opened.push(transport);
    await transport.connect?.(AbortSignal.timeout(60_000));
    return (await probePublish(transport, batch, { timeout: 60_000 })).results;
  }
  /** Either refused at enqueue, or taken by the broker: nothing between. */
  async function verdict(input: object, options: Partial<RabbitMqOptions> = {}): Promise<'refused' | 'delivered'> {
    const message = enqueued({ type: 'x', topic: 'topic', payload: 'y', ...input }, define(options));
    if (message instanceof Error) {
      expect(message).toBeInstanceOf(OutboxMessageError);
      expect(['INVALID_MESSAGE', 'PAYLOAD_TOO_LARGE']).toContain(message.code);
      return 'refused';
    }
    expect(await publish(options, message)).toEqual([{ ok: true }]);
    const found = (await observer.receivedUpTo(queue, message.id)).find(({ id }) => id === message.id);
    expect(found?.content.equals(message.payload as Buffer)).toBe(true);
    expect(found?.fields.routingKey).toBe(message.options.rabbitmq?.routingKey ?? message.topic);
    expect(found?.properties).toMatchObject({ type: message.type, contentType: message.contentType });
    for (const [name, value] of Object.entries(message.headers))
      expect([name, found?.headers?.[name]]).toEqual([name, value]);
    return 'delivered';
  }

  const limit = 300_000; // several frames
  const frame = { url: { ...amqpServer(), frameMax: 8192 } };
  const inFrame = 8192 - 6 * 256 - 64 - 2 * 255 - 160;
  it.each<[string, object, 'refused' | 'delivered', Partial<RabbitMqOptions>?]>([
    ['payload, limit - 1', { payload: Buffer.alloc(limit - 1, 7) }, 'delivered', { maxPayloadBytes: limit }],
    ['payload, limit', { payload: Buffer.alloc(limit, 7) }, 'delivered', { maxPayloadBytes: limit }],
    ['payload, limit + 1', { payload: Buffer.alloc(limit + 1, 7) }, 'refused', { maxPayloadBytes: limit }],
    ['headers, limit - 1', { headers: { x: long(32 * 1024 - 2) } }, 'delivered'],
    ['headers, limit', { headers: { x: long(32 * 1024 - 1) } }, 'delivered'],
    ['headers, limit + 1', { headers: { x: long(32 * 1024) } }, 'refused'],
    [
      'as many headers, and as long ones, as there may be',
      { headers: many(900, 31_500), type: long(255), key: long(255), contentType: long(255), payload: Buffer.of(1) },
      'delivered',
    ],
    ['as many values as there may be', { headers: { x: Array<string>(MAX_HEADER_VALUES).fill('') } }, 'delivered'],
    ['more values', { headers: { x: Array<string>(MAX_HEADER_VALUES + 1).fill('') } }, 'refused'],
    ['headers as large as a small frame', { headers: { x: long(inFrame - 7) } }, 'delivered', frame],
    ['headers that a small frame cannot hold', { headers: { x: long(inFrame - 6) } }, 'refused', frame],
    ['header name, 254 bytes', { headers: { [long(254)]: 'v' } }, 'delivered'],
    ['header name, 255 bytes', { headers: { [long(255)]: 'v' } }, 'delivered'],
    ['header name, 256 bytes', { headers: { [long(256)]: 'v' } }, 'refused'],
  ])('F3: %s: refused at enqueue or delivered', async (_name, ...[input, expected, options]) => {
    expect(await verdict(input, options)).toBe(expected);
  });

  it.each<[string, object, 'refused' | 'delivered']>([
    ['topic, 254 bytes', { topic: long(254) }, 'delivered'],
    ['topic, 255 bytes', { topic: long(255) }, 'delivered'],
    ['topic, 256 bytes in 128 characters', { topic: 'ü'.repeat(128) }, 'refused'],
    ['topic: a space', { topic: ' ' }, 'delivered'],
    ['topic: wildcards', { topic: '*.#' }, 'delivered'],
    ['topic: >', { topic: 'a.>' }, 'delivered'],
    ['topic: dots', { topic: '..' }, 'delivered'],
    ['topic: letters of many languages', { topic: 'тема 话题 💥' }, 'delivered'],
    ['topic: line breaks', { topic: 'a\r\nb' }, 'delivered'],
    ['topic: nothing', { topic: '' }, 'refused'],
    ['topic: NUL', { topic: 'a\0b' }, 'refused'],
    ['type, 255 bytes', { type: long(255) }, 'delivered'],
    ['type, 256 bytes in 64 characters', { type: '💥'.repeat(64) }, 'refused'],
    ['content type, 256 bytes in 128 characters', { payload: Buffer.of(1), contentType: 'ü'.repeat(128) }, 'refused'],
    ['routing key, 255 bytes', { options: { rabbitmq: { routingKey: long(255) } } }, 'delivered'],
    ['routing key, 256 bytes', { options: { rabbitmq: { routingKey: long(256) } } }, 'refused'],
    ['routing key: a number', { options: { rabbitmq: { routingKey: 7 } } }, 'refused'],
    ['exchange, 256 bytes', { options: { rabbitmq: { exchange: long(256) } } }, 'refused'],
    ['correlation id, 256 bytes', { options: { rabbitmq: { correlationId: long(256) } } }, 'refused'],
    ['priority 256', { options: { rabbitmq: { priority: 256 } } }, 'refused'],
    ['expiration with a fraction', { options: { rabbitmq: { expiration: 0.5 } } }, 'refused'],
  ])('F7: %s: refused at enqueue or delivered', async (_name, input, expected) => {
    expect(await verdict(input)).toBe(expected);
  });

  it.each<[string, Record<string, unknown>, 'refused' | 'delivered']>([
    ['CC', { CC: 'another-queue' }, 'refused'],
    ['CC, several', { CC: ['another-queue'] }, 'refused'],
    ['BCC', { BCC: ['another-queue'] }, 'refused'],
    ['x-death', { 'x-death': ['x'] }, 'refused'],
    ['x-delay and other plug-ins’ names', { 'x-delay': '5', 'x-match': 'any' }, 'delivered'],
    ['id', { id: 'forged' }, 'refused'],
    ['key', { key: 'forged' }, 'refused'],
    ['tombstone', { tombstone: 'true' }, 'refused'],
    ['constructor and its like', { constructor: 'a', prototype: 'b', toString: 'c', hasOwnProperty: 'd' }, 'delivered'],
    ['__proto__', JSON.parse('{"__proto__":"a"}') as Record<string, unknown>, 'refused'],
    ['line breaks in a value', { a: 'one\r\nSet-Cookie: two' }, 'delivered'],
    ['line breaks in a name', { 'a\r\nb': 'c' }, 'refused'],
    ['an empty name', { '': 'c' }, 'refused'],
    ['a number', { a: 5 }, 'refused'],
    [
      'text, bytes, several, nothing',
      { a: 'ü💥', b: Buffer.of(0, 255), c: ['x', Buffer.of(1), ''], d: '' } satisfies Record<string, HeaderValue>,
      'delivered',
    ],
  ])('F6: the header %s: refused at enqueue or delivered', async (_name, headers, expected) => {
    expect(await verdict({ headers })).toBe(expected);
  });

  it('F3: rows of other programs that a frame cannot hold are the message’s fault and harm no neighbour', async () => {
    const tooMuch = contractMessage({ topic: 'x', headers: { x: long(9_000) } });
    const copies = contractMessage({ topic: 'x', headers: { BCC: [queue] } });
    const [good, other] = [contractMessage({ topic: 'x' }), contractMessage({ topic: 'x' })];
    const results = await publish(frame, good, tooMuch, copies, other);
    expect(results.map((result) => (result.ok ? 'ok' : `${result.blame} ${result.final}`))).toEqual([
      'ok',
      'message true',
      'message true',
      'ok',
    ]);
  });
});

function amqpServer(): { hostname: string; port: number; username: string; password: string } {
  const { hostname, port, username, password } = new URL(
    process.env['OUTBOX_TEST_RABBITMQ_URL'] ?? 'amqp://guest:guest@h',
  );
  return { hostname, port: Number(port || 5672), username, password };
}
