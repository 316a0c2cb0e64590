import { Kafka } from 'kafkajs';
import { kafka, type KafkaOptions } from '../../../../lib/transports/kafka/index.js';
import { topicProblem } from '../../../../lib/transports/kafkajs/limits.js';

const client = { brokers: ['127.0.0.1:1'] };
const BROKERS = "must be an array of texts such as 'host:9092', or a function that gives one";

describe('kafka()', () => {
  it('N4: an unknown name in options.kafka is refused at enqueue', () => {
    const check = (options: object) =>
      kafka({ client }).limits?.check?.({
        ...{ topic: 't', key: null, type: 't', contentType: 'text/plain', payloadBytes: 1, headers: {} },
        options: { kafka: options },
      });
    expect(check({ partion: 1 })).toBe("options.kafka: partion is no option (did you mean 'partition'?)");
    expect(check({ ['x'.repeat(1_000)]: 5 })!.length).toBeLessThan(300);
    expect(check({ partition: 1, timestamp: 2 })).toBeUndefined();
    expect(check('first' as never)).toBe('options.kafka must be an object, not a string');
    expect(check(null as never)).toBe('options.kafka must be an object, not null');
  });

  it('is inert: defines without a connection, knows its limits', () => {
    const definition = kafka({ client, topicPrefix: 'eu.' });
    expect(definition).toMatchObject({ kind: 'kafka', receipt: 'broker' });
    expect(definition.limits).toMatchObject({ topicBytes: 246, tombstones: true });
    expect(definition.limits!.payloadBytes).toBeGreaterThan(1_000_000);
    expect(definition.limits!.checkTopic!('a b')).toMatch(/may hold only/);
    expect(kafka({ client, maxMessageBytes: 100_000 }).limits!.payloadBytes).toBe(100_000 - 12_288);
    expect(kafka({ client, maxMessageBytes: 12_289 }).limits!.payloadBytes).toBe(1);
  });

  it.each([
    ['', 'is empty'],
    ['.', '"."'],
    ['..', '".."'],
    ['a/b', 'may hold'],
    ['ä', 'may hold'],
    ['a\n', 'may hold'],
    ['x'.repeat(250), 'longer'],
  ])('refuses the topic %p', (topic, why) => expect(topicProblem(topic)).toContain(why));

  it.each(['orders', 'Orders_1.v2-x', 'x'.repeat(249), '...'])('takes the topic %p', (topic) => {
    expect(topicProblem(topic)).toBeUndefined();
  });

  it('takes a configuration, a Kafka object, a token, a factory', async () => {
    const made = async (option: KafkaOptions['client'], ...given: unknown[]) => {
      const definition = kafka({ client: option });
      return [definition.inject, (await definition.create(...given)).receipt];
    };
    const useFactory = (brokers: string[]) => Promise.resolve({ brokers });
    expect(await made(client)).toEqual([undefined, 'broker']);
    expect(await made(new Kafka(client))).toEqual([undefined, 'broker']);
    expect(await made('KAFKA', new Kafka(client))).toEqual([['KAFKA'], 'broker']);
    expect(await made('CONFIG', client)).toEqual([['CONFIG'], 'broker']);
    expect(await made({ inject: ['BROKERS'], useFactory }, ['127.0.0.1:1'])).toEqual([['BROKERS'], 'broker']);
    expect(await made({ useFactory: () => client })).toEqual([[], 'broker']);
  });

  it('refuses a token that resolves to something else, and a Kafka object that it cannot control', async () => {
    await expect(async () => kafka({ client: 'X' }).create({})).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    await expect(async () => kafka({ client: 'X' }).create({ brokers: 'a:9092' })).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
      message: `kafka(): client.brokers ${BROKERS}.`,
    });
    const foreign = { producer: () => ({}), admin: () => ({}) } as unknown as Kafka;
    await expect(async () => kafka({ client: foreign }).create()).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });

  it.each<[string, Partial<KafkaOptions>]>([
    ['client', { client: undefined as never }],
    ['acks', { acks: 0 as never }],
    ['acks', { acks: 1, idempotent: true }],
    ['acks', { acks: 1, transactional: true }],
    ['idempotent', { idempotent: false, transactional: true }],
    ['transactional.transactionalId', { transactional: { transactionalId: '' } }],
    ['fencing.transactionalId', { fencing: {} as never }],
    ['fencing.transactionalId', { fencing: true as never }],
    ['transactional', { fencing: { transactionalId: 'a' }, transactional: true }],
    ['producers', { fencing: { transactionalId: 'a' }, producers: 4 }],
    ['producers', { producers: 0 }],
    ['compression', { compression: 'brotli' as never }],
    ['partitioner', { partitioner: 'java' as never }],
    ['producer.retry.retries', { producer: { retry: { retries: 0 } } }],
    ['topicPrefix', { topicPrefix: 'a b' }],
    ['topicPrefix', { topicPrefix: 5 as never }],
    ['partitioner', { partitioner: {} as never }],
    ['headers', { headers: 'a' as never }],
    ['headers', { headers: ['a'] as never }],
    ['headers.tenant', { headers: { tenant: 5 as never } }],
    ['headers.tenant', { headers: { tenant: ['a', undefined as never] } }],
    ['cloudEvents.source', { cloudEvents: {} as never }],
    ['cloudEvents.source', { cloudEvents: { source: '' } }],
    ['maxMessageBytes', { maxMessageBytes: '1mb' as never }],
    ['maxMessageBytes', { maxMessageBytes: -1 }],
    ['maxMessageBytes', { maxMessageBytes: 12_288 }],
    ['maxMessageBytes', { maxMessageBytes: 2 ** 31 }],
  ])('refuses a wrong %s', (path, options) => {
    expect(() => kafka({ client, ...options })).toThrow(`kafka(): ${path} `);
  });

  it.each([
    [undefined, "kafka(): options are undefined; must be an object with 'client'."],
    [{ client: { clientId: 'x' } }, 'kafka(): client.brokers is missing.'],
    [{ client: { brokers: undefined } }, 'kafka(): client.brokers is missing.'],
    [{ client: { brokers: [] } }, 'kafka(): client.brokers is empty.'],
    [{ client: { brokers: 'a:9092,b:9092' } }, `kafka(): client.brokers ${BROKERS}.`],
    [{ client: { brokers: ['a:9092', undefined] } }, `kafka(): client.brokers ${BROKERS}.`],
    [{ client: { brokers: [''] } }, `kafka(): client.brokers ${BROKERS}.`],
    [{ brokers: ['b'] }, "kafka(): brokers is no option (did you mean 'client.brokers'?); client is missing."],
    [
      { client, acs: 1, topicprefix: 'x', producers: 0, zzz: 1 },
      "kafka(): acs is no option (did you mean 'acks'?); topicprefix is no option (did you mean 'topicPrefix'?); " +
        'zzz is no option (there are client, producer, producers, partitioner, compression, acks, idempotent, transactional, ' +
        'fencing, allowAutoTopicCreation, checkDestinations, topicPrefix, timestamp, headers, cloudEvents, maxMessageBytes); producers must be a whole number from 1 to 32.',
    ],
  ])('says everything that is wrong with %j', (options, message) => {
    expect(() => kafka(options as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS', message }));
  });

  it('takes headers of texts, bytes and several of them', () => {
    const headers = { text: 'a', bytes: Buffer.from('b'), several: ['c', new Uint8Array([1])] };
    expect(kafka({ client, headers, cloudEvents: { source: '/shop' } })).toMatchObject({ kind: 'kafka' });
  });

  it('takes a brokers function, and a forward reference as a token', () => {
    expect(kafka({ client: { brokers: async () => ['127.0.0.1:1'] } })).toMatchObject({ kind: 'kafka' });
    const token = { forwardRef: () => Kafka };
    expect(kafka({ client: token as never }).inject).toEqual([token]);
  });

  it('refuses a compression whose codec is not there', async () => {
    await expect(async () => kafka({ client, compression: 'snappy' }).create()).rejects.toMatchObject({
      code: 'MISSING_PEER',
    });
  });

  it('promises runs only while a key keeps its partition', async () => {
    expect((await kafka({ client }).create()).atomicRuns).toBe(true);
    expect((await kafka({ client, partitioner: 'legacy' }).create()).atomicRuns).toBe(true);
    expect((await kafka({ client, partitioner: () => () => 0 }).create()).atomicRuns).toBe(false);
  });

  it('warns about acks 1, as every transport warns', () => {
    expect(kafka({ client, acks: 1 }).warnings).toEqual([expect.stringContaining('can be lost')]);
    expect(kafka({ client, idempotent: false }).warnings).toEqual([expect.stringContaining('twice')]);
    expect(kafka({ client }).warnings).toEqual([]);
  });
});
