import type { OutboxMessage } from '../../../../lib/index.js';
import { kafka } from '../../../../lib/transports/kafka/index.js';
import { kafkaRecord } from '../../../../lib/transports/nest-client/record.js';
import { createEnvelope } from '../../../../lib/transports/envelope.js';
import { RecordPlan, type Chunk } from '../../../../lib/transports/kafka/records.js';
import { contractMessage, type ContractMessageFields } from '../../../support/publish.js';
import { enqueued } from '../../../support/enqueue.js';

const settings = { envelope: createEnvelope(), topicPrefix: 'eu.', maxBytes: 10_000, fixedHeaderBytes: 0 };
const plan = (...fields: Partial<ContractMessageFields>[]) =>
  new RecordPlan(
    fields.map((f) => contractMessage({ topic: 't', key: 'k', ...f })),
    settings,
  );
const indexes = (chunk: Chunk | undefined) =>
  chunk && Object.fromEntries([...chunk.topics].map(([topic, t]) => [topic, t.indexes]));

describe('Kafka record plan', () => {
  it('groups by topic in the order of the batch, under the prefix', () => {
    const p = plan({ topic: 'a' }, { topic: 'b' }, { topic: 'a' });
    expect(indexes(p.next())).toEqual({ 'eu.a': [0, 2], 'eu.b': [1] });
    expect(p.next()).toBeUndefined();
  });

  it('makes the record of a message: null stays null, the time is that of the publish', () => {
    const createdAt = new Date('2026-11-21T10:05:01.123Z');
    const begun = Date.now();
    const [record] = plan({ key: null, payload: null, createdAt }).next()!.topics.get('eu.t')!.records;
    expect(record).toMatchObject({ key: null, value: null });
    expect(Number(record!.timestamp)).toBeGreaterThanOrEqual(begun);
    expect(record).not.toHaveProperty('partition');
    const [chosen] = plan({ options: { kafka: { partition: 0, timestamp: 5 } } })
      .next()!
      .topics.get('eu.t')!.records;
    expect(chosen).toMatchObject({ partition: 0, timestamp: '5' });
  });

  it('cuts where a record batch would grow too large, and leaves an oversized record alone', () => {
    const big = { payload: 'x'.repeat(4000) };
    const p = plan(big, big, big, { payload: 'x'.repeat(20_000) }, big);
    expect([p.next(), p.next(), p.next(), p.next(), p.next()].map((c) => indexes(c)?.['eu.t'])).toEqual([
      [0, 1],
      [2],
      [3],
      [4],
      undefined,
    ]);
  });

  it.each(['kafka_replyTopic', 'kafka_replyPartition'])(
    'I9: sends no header %s, which tells a consumer where to answer; the next of its key waits',
    (name) => {
      const p = plan({ headers: { [name]: 'elsewhere' } }, {}, { key: 'other', headers: { kafka_correlationId: '1' } });
      expect(indexes(p.next())?.['eu.t']).toEqual([2]);
      const message = expect.stringContaining(`header name ${name} is reserved`) as string;
      expect(p.unreadable).toMatchObject([{ index: 0, error: { code: 'INVALID_MESSAGE', message } }]);
      expect(p.skipped).toEqual([1]);
      const headers = { [name]: 'elsewhere' };
      expect(() => kafkaRecord(contractMessage({ topic: 't', headers }))).toThrow(name);
      expect(enqueued({ type: 'x', payload: 1, headers }, kafka({ client: { brokers: ['k:1'] } }))).toMatchObject({
        code: 'INVALID_MESSAGE',
        message: expect.stringContaining(name) as string,
      });
    },
  );

  it('I9: headers of the transport itself are the application’s', () => {
    const own = { ...settings, envelope: createEnvelope({ headers: { kafka_replyTopic: 'answers' } }) };
    const p = new RecordPlan([contractMessage({ topic: 't' })], own);
    expect(p.next()?.topics.get('eu.t')?.records[0]?.headers).toMatchObject({ kafka_replyTopic: 'answers' });
  });

  it('counts bytes, not characters', () => {
    const p = plan({ payload: 'é'.repeat(4000) }, { payload: 'é'.repeat(1000) });
    expect(indexes(p.next())?.['eu.t']).toEqual([0]);
  });

  it('sends nothing of a key after a message of it that failed, other keys go on', () => {
    const big = { payload: 'x'.repeat(9500) };
    const p = plan(big, { key: 'k' }, { key: 'k' }, { ...big, key: 'other' }, { key: null });
    expect(indexes(p.next())?.['eu.t']).toEqual([0]);
    p.block(0);
    expect(indexes(p.next())?.['eu.t']).toEqual([3]);
    expect(indexes(p.next())?.['eu.t']).toEqual([4]);
    expect(p.skipped).toEqual([1, 2]);
  });

  it('does not split a run of one key over two partitions', () => {
    const to = (partition: number) => ({ options: { kafka: { partition } } });
    const p = plan(
      to(0),
      to(0),
      to(1),
      to(0),
      { key: 'other', ...to(1) },
      { key: null, ...to(1) },
      { key: null, ...to(2) },
    );
    expect(indexes(p.next())?.['eu.t']).toEqual([0, 1, 4, 5, 6]);
    expect(p.skipped).toEqual([2, 3]);
  });

  it.each(['headersJson', 'optionsJson'])(
    'leaves out what nobody can read the %s of, and what stands behind it',
    (column) => {
      const broken = (json: string, key: string): OutboxMessage =>
        Object.assign(contractMessage({ topic: 't', key }), { [column]: json });
      const fine = (key: string): OutboxMessage => contractMessage({ topic: 't', key });
      const p = new RecordPlan([fine('a'), broken('{', 'k'), fine('k'), broken('null', 'l'), fine('b')], settings);
      expect(indexes(p.next())).toEqual({ 'eu.t': [0, 4] });
      expect(p.next()).toBeUndefined();
      expect(p.unreadable.map(({ index }) => index)).toEqual([1, 3]);
      expect(p.skipped).toEqual([2]);
    },
  );

  it('leaves out what has no topic: kafkajs would refuse the whole request', () => {
    const topics = ['a', '', 'b'].map((topic) => contractMessage({ topic }));
    const p = new RecordPlan(topics, { ...settings, topicPrefix: '' });
    expect(indexes(p.next())).toEqual({ a: [0], b: [2] });
    expect(p.unreadable).toMatchObject([{ index: 1, error: { message: expect.stringContaining('no topic') } }]);
    expect(indexes(plan({ topic: '' }).next())).toEqual({ 'eu.': [0] });
  });

  it('takes an empty batch', () => {
    expect(plan().next()).toBeUndefined();
  });
});
