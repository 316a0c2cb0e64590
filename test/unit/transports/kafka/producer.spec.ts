import type { Kafka, RecordMetadata } from 'kafkajs';
import { createEnvelope } from '../../../../lib/transports/envelope.js';
import {
  keepAnswers,
  type ProtocolRequest,
  type RequestSender,
} from '../../../../lib/transports/kafkajs/produce-response.js';
import type { SocketGuard } from '../../../../lib/transports/kafkajs/client.js';
import { KafkaProducer } from '../../../../lib/transports/kafka/producer.js';
import { RecordPlan } from '../../../../lib/transports/kafka/records.js';
import { contractMessage } from '../../../support/publish.js';
import { gate, turn } from '../../../support/transport-relay.js';

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

  describe('of several brokers to one send, of which one refuses its part', () => {
    const { parse } = jest.requireActual<{ parse: (answer: unknown) => Promise<unknown> }>(
      'kafkajs/src/protocol/requests/produce/v7/response',
    );
    const said = (partition: number, errorCode: number, baseOffset: string) => ({
      topics: [{ topicName: 't', partitions: [{ partition, errorCode, baseOffset }] }],
    });
    const refusal = said(0, 10, '-1');
    const success = said(1, 0, '5');

    /** As kafkajs asks each leader for its part, and gives up with the first error. Each broker answers when it is told to. */
    function asking(...brokers: { opened: Promise<unknown> }[]) {
      const kafkaClient = (guard: SocketGuard): Kafka => {
        const pools = brokers.map(({ opened }) => {
          const send = async ({ response }: ProtocolRequest) => response.parse((await opened) as never);
          const pool: RequestSender = { send };
          keepAnswers(pool, guard);
          return pool;
        });
        const request = { request: { apiKey: 0, apiVersion: 7, encode: jest.fn() }, response: { parse } };
        const sendBatch = () => Promise.all(pools.map((pool) => pool.send(request)));
        return { producer: () => ({ sendBatch, disconnect: async () => undefined }) } as unknown as Kafka;
      };
      return new KafkaProducer(kafkaClient, {}, { acks: -1, compression: 0, transactional: false });
    }

    it.each([
      ['before', true],
      ['after', false],
    ])('what another one stored is known, when it answers %s it', async (_when, isFirst) => {
      const [a, b] = [gate<unknown>(), gate<unknown>()];
      const [sender, both] = [asking(a, b), chunk(0, 1)];
      // At once: the producer is about to be killed.
      const stored = sender.send(both, 1_000).catch(() => sender.storedDespite(both));
      if (isFirst) b.open(success);
      else a.open(refusal);
      await turn();
      a.open(refusal);
      b.open(success);
      expect(await stored).toEqual([1]);
    });

    it('who does not answer is waited for until the deadline, and nothing of it counts', async () => {
      const [a, b] = [gate<unknown>(), gate<unknown>()];
      const [sender, both] = [asking(a, b), chunk(0, 1)];
      let ended = false;
      const sent = sender
        .send(both, 1_000)
        .catch(String)
        .finally(() => (ended = true));
      a.open(refusal);
      await turn();
      expect(ended).toBe(false);
      sender.kill(new Error('the deadline'));
      expect(await sent).toContain('the deadline');
      expect(sender.storedDespite(both)).toEqual([]);
    });

    it('where a connection ends nobody is waited for, and answers of an earlier send say nothing', async () => {
      const [a, b] = [gate<unknown>(), gate<unknown>()];
      const [sender, both] = [asking(a, b), chunk(0, 1)];
      const sent = sender.send(both, 1_000).catch(String);
      b.open(success);
      await turn();
      a.fail(new Error('cut'));
      expect(await sent).toContain('cut');
      expect(sender.storedDespite(both)).toEqual([1]);
      jest.spyOn(sender.producer, 'sendBatch').mockRejectedValue(new Error('cut'));
      await expect(sender.send(both, 1_000)).rejects.toThrow('cut');
      expect(sender.storedDespite(both)).toEqual([]);
    });
  });
});
