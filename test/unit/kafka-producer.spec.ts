import type { Kafka, RecordMetadata } from 'kafkajs';
import { createEnvelope } from '../../lib/publish/transports/envelope.js';
import { KafkaProducer } from '../../lib/publish/transports/kafka-producer.js';
import { RecordPlan } from '../../lib/publish/transports/kafka-records.js';
import { contractMessage } from '../../lib/testing/contract-message.js';

/** What a broker that keeps its promises never answers; so there is no real one to ask. */
describe('Kafka answers', () => {
  const producer = () =>
    new KafkaProducer(
      () => ({ producer: () => ({}) }) as unknown as Kafka,
      {},
      { acks: -1, compression: 0, transactional: false },
    );
  const chunk = (...partitions: (number | 'nowhere')[]) => {
    const settings = { envelope: createEnvelope(), topicPrefix: '', maxBytes: 1e6, fixedHeaderBytes: 0 };
    const planned = new RecordPlan(
      partitions.map(() => contractMessage({ topic: 't' })),
      settings,
    ).next()!;
    partitions.forEach((partition, n) => {
      const record = planned.topics.get('t')!.records[n]!;
      record.partition = partition === 'nowhere' ? 99 : partition;
      record.nowhere = partition === 'nowhere';
    });
    return planned;
  };
  const answer = (partition: number, baseOffset: number, errorCode = 0): RecordMetadata => ({
    topicName: 't',
    partition,
    errorCode,
    baseOffset: `${baseOffset}`,
  });

  it('accepts an offset for every partition', () => {
    expect(producer().check(chunk(0, 1, 0), [answer(0, 0), answer(1, 7)])).toEqual([]);
  });

  it('names the records that had nowhere to go', () => {
    expect(producer().check(chunk(0, 'nowhere', 0), [answer(0, 0)])).toEqual([1]);
  });

  it.each<[string, RecordMetadata[]]>([
    ['nothing', []],
    ['one partition less', [answer(0, 0)]],
    ['an error code', [answer(0, 0), answer(1, 0, 6)]],
    ['no offset', [answer(0, 0), answer(1, -1)]],
    ['another topic', [answer(0, 0), { ...answer(1, 0), topicName: 'u' }]],
  ])('does not accept %s', (_what, answers) => {
    expect(() => producer().check(chunk(0, 1), answers)).toThrow(/no answer/);
  });

  it('does not accept an offset that was given out before: the records were taken for a repetition', () => {
    const p = producer();
    expect(p.check(chunk(0, 0, 0), [answer(0, 10)])).toEqual([]);
    for (const offset of [10, 11, 12, 9]) expect(() => p.check(chunk(0), [answer(0, offset)])).toThrow(/earlier send/);
    expect(p.check(chunk(0), [answer(0, 13)])).toEqual([]);
  });

  it('B1: a transaction that was begun in time and is there too late carries nothing', async () => {
    const sent: unknown[] = [];
    const transaction = async (): Promise<object> => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60); // the process stands still
      return { sendBatch: async (batch: unknown) => sent.push(batch), isActive: () => false };
    };
    const kafkaClient = { producer: () => ({ transaction, disconnect: async () => undefined }) };
    const settings = { acks: -1, compression: 0, transactional: true } as const;
    const late = new KafkaProducer(() => kafkaClient as unknown as Kafka, {}, settings);
    await expect(late.send(chunk(0), 50)).rejects.toMatchObject({ code: 'PUBLISH_TIMEOUT' });
    expect(sent).toEqual([]);
  });
});
