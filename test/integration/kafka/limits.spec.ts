import { Kafka, type IHeaders } from 'kafkajs';
import { type OutboxTransport, OutboxMessageError } from '../../../lib/index.js';
import { MAX_HEADER_VALUES } from '../../../lib/enqueue/headers.js';
import { kafka, type KafkaOptions } from '../../../lib/transports/kafka/index.js';
import { publish } from '../../support/publish.js';
import { enqueued } from '../../support/enqueue.js';
import { kafkaConfig, TestTopics, type ReadRecord } from '../../support/kafka.js';
import { describeWith } from '../../support/services.js';

const long = (length: number): string => 'x'.repeat(length);

describeWith('kafka', 'what Kafka can carry', () => {
  const topics = new TestTopics();
  const opened: OutboxTransport[] = [];
  let topic: string;
  beforeAll(async () => {
    await topics.start();
    topic = await topics.create();
  });
  afterAll(async () => {
    await Promise.all(opened.map((transport) => transport.close?.()));
    await topics.stop();
  });
  const define = (options: Partial<KafkaOptions> = {}) => kafka({ client: kafkaConfig(), ...options });

  /** All at once: those that enqueue takes are published in one go and must all be there; a consumer costs seconds. */
  async function verdicts(
    inputs: Record<string, object>,
    options: Partial<KafkaOptions> = {},
    own = topic,
  ): Promise<Record<string, 'refused' | 'delivered'>> {
    const found: Record<string, 'refused' | 'delivered'> = {};
    const messages = [];
    for (const [name, input] of Object.entries(inputs)) {
      const message = enqueued({ type: 'x', topic: own, payload: 'y', ...input }, define(options));
      found[name] = message instanceof Error ? 'refused' : 'delivered';
      if (message instanceof Error) expect([name, message]).toEqual([name, expect.any(OutboxMessageError)]);
      else messages.push(message);
    }
    const transport = await define(options).create();
    opened.push(transport);
    const before = await topics.total(own);
    const results = await publish(transport, messages, 60_000);
    expect(results.filter(({ ok }) => !ok)).toEqual([]);
    const records = await topics.read(own, before + messages.length);
    const byId = new Map(records.map((record) => [String(record.headers?.['id']), record]));
    for (const message of messages) {
      const record = byId.get(message.id) as ReadRecord;
      expect(record.value?.equals(message.payload as Buffer)).toBe(true);
      expect(record.key?.toString() ?? null).toBe(message.key);
      for (const [name, value] of Object.entries(message.headers))
        expect([name, values(record.headers?.[name])]).toEqual([name, values(value as IHeaders[string])]);
    }
    return found;
  }

  const P = 1_048_588 - 12_288; // what is left for a payload
  const many = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`h${i}`.padEnd(5, '_'), 'abc']));
  it('F3: payload, headers, key and type at their limits: refused at enqueue or delivered', async () => {
    const most = { key: long(255), type: long(255), contentType: long(255), headers: many };
    const payload = (size: number) => ({ payload: Buffer.alloc(size, 7) });
    expect(
      await verdicts({
        'limit - 1': payload(P - 1),
        limit: payload(P),
        'limit + 1': payload(P + 1),
        'limit, and everything else as long as it may be': { ...payload(P - 7_000), ...most },
        'headers, limit - 1': { headers: { x: long(8190) } },
        'headers, limit': { headers: { x: long(8191) } },
        'headers, limit + 1': { headers: { x: long(8192) } },
        'one name, many values': { headers: { [long(255)]: Array<string>(MAX_HEADER_VALUES).fill('') } },
        'one name, many values, and a payload': {
          ...payload(P - 200_000),
          headers: { [long(255)]: Array<string>(MAX_HEADER_VALUES).fill('') },
        },
      }),
    ).toEqual({
      'limit - 1': 'delivered',
      limit: 'delivered',
      'limit + 1': 'refused',
      'limit, and everything else as long as it may be': 'delivered',
      'headers, limit - 1': 'delivered',
      'headers, limit': 'delivered',
      'headers, limit + 1': 'refused',
      'one name, many values': 'delivered',
      'one name, many values, and a payload': 'refused',
    });
  });

  it('F3: a topic with a smaller max.message.bytes, told by maxMessageBytes', async () => {
    const maxMessageBytes = 40_000;
    const small = await topics.create(1, { 'max.message.bytes': String(maxMessageBytes) });
    const size = maxMessageBytes - 12_288;
    const inputs = { below: { payload: Buffer.alloc(size) }, above: { payload: Buffer.alloc(size + 1) } };
    expect(await verdicts(inputs, { maxMessageBytes }, small)).toEqual({ below: 'delivered', above: 'refused' });
  });

  it('F6: headers: refused at enqueue or delivered', async () => {
    const headers: Record<string, [Record<string, unknown>, 'refused' | 'delivered']> = {
      id: [{ id: 'forged' }, 'refused'],
      time: [{ time: 'forged' }, 'refused'],
      'content-type': [{ 'content-type': 'forged' }, 'refused'],
      kafka_replyTopic: [{ kafka_replyTopic: 'answers' }, 'refused'],
      kafka_replyPartition: [{ kafka_replyPartition: '0' }, 'refused'],
      'names of Spring and others': [{ kafka_offset: '1', __TypeId__: 'a', ce_id: 'b' }, 'delivered'],
      'what objects have': [{ constructor: 'a', toString: 'b', prototype: 'c' }, 'delivered'],
      __proto__: [JSON.parse('{"__proto__":"a"}') as Record<string, unknown>, 'delivered'],
      'line breaks in a value': [{ a: 'x\r\ny' }, 'delivered'],
      'line breaks in a name': [{ 'a\nb': 'x' }, 'refused'],
      'no name': [{ '': 'x' }, 'refused'],
      'a number': [{ a: 5 }, 'refused'],
      'text, bytes, several, nothing': [
        { a: 'ü💥', b: Buffer.of(0, 255), c: ['x', Buffer.of(1), ''], d: '' },
        'delivered',
      ],
    };
    const inputs = Object.fromEntries(Object.entries(headers).map(([name, [value]]) => [name, { headers: value }]));
    const expected = Object.fromEntries(Object.entries(headers).map(([name, [, verdict]]) => [name, verdict]));
    expect(await verdicts(inputs)).toEqual(expected);
    expect(await verdicts({ ce: { headers: { ce_id: 'x' } } }, { cloudEvents: true })).toEqual({ ce: 'refused' });
  });

  it('F7: a topic is taken at enqueue exactly when the broker takes its name', async () => {
    const names = [
      'a',
      'A-b_c.d',
      '.',
      '..',
      '...',
      '_',
      '-',
      ' ',
      'a b',
      '*',
      '#',
      'a.>',
      'ü',
      '话题',
      '💥',
      'a/b',
      'a\r\nb',
      'a:b',
    ];
    names.push(long(248), long(249), long(250), '__consumer_offsets', '__transaction_state', '__mine');
    const admin = new Kafka(kafkaConfig()).admin();
    await admin.connect();
    try {
      for (const name of names) {
        const message = enqueued({ type: 'x', topic: name, payload: 1 }, define());
        const internal = name.startsWith('__') && name !== '__mine';
        const taken = !internal && (await accepts(admin, name));
        expect([name, message instanceof OutboxMessageError ? 'refused' : 'taken']).toEqual([
          name,
          taken ? 'taken' : 'refused',
        ]);
      }
      expect(enqueued({ type: 'x', topic: '', payload: 1 }, define())).toBeInstanceOf(OutboxMessageError);
      expect(enqueued({ type: 'x', topic: long(246), payload: 1 }, define({ topicPrefix: 'shop' }))).toBeInstanceOf(
        OutboxMessageError,
      );
    } finally {
      await admin.disconnect();
    }
  });

  it.each([
    [{ partition: -1 }],
    [{ partition: 0.5 }],
    [{ partition: 2 ** 31 }],
    [{ partition: '1' }],
    [{ timestamp: -1 }],
    [{ timestamp: 1.5 }],
    [{ timestamp: '2026-01-01' }],
  ])('F7: options.kafka %j is refused at enqueue', (options) => {
    expect(enqueued({ type: 'x', payload: 1, options: { kafka: options } }, define())).toMatchObject({
      code: 'INVALID_MESSAGE',
    });
  });
});

async function accepts(admin: ReturnType<Kafka['admin']>, topic: string): Promise<boolean> {
  try {
    return await admin.createTopics({ topics: [{ topic }], validateOnly: true, waitForLeaders: false });
  } catch (error) {
    expect(String((error as Error & { errors?: Error[] }).errors ?? error)).toMatch(/invalid topic|INVALID_TOPIC/i);
    return false;
  }
}

/** kafkajs' decoder takes what every object inherits for a first value. */
function values(header: IHeaders[string]): string[] {
  const all: unknown[] = Array.isArray(header) ? header : [header];
  return all
    .filter((one) => typeof one === 'string' || one instanceof Uint8Array)
    .map((one) => Buffer.from(one as string).toString('hex'));
}
