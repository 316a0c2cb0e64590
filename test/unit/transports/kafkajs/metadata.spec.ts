import type { Producer } from 'kafkajs';
import { KafkaLink } from '../../../../lib/transports/nest-client/kafka.js';
import type { NestClient } from '../../../../lib/transports/nest-client/kind.js';
import type { ProtocolRequest } from '../../../../lib/transports/kafkajs/produce-response.js';
import { keepTopicsApart, topicBehind } from '../../../../lib/transports/kafkajs/metadata.js';

const { parse } = jest.requireActual<{ parse: (answer: unknown) => Promise<unknown> }>(
  'kafkajs/src/protocol/requests/metadata/v6/response',
);
const METADATA = 3;
const topic = (name: string, topicErrorCode = 0, ...partitionErrorCodes: number[]) => ({
  topic: name,
  topicErrorCode,
  partitionMetadata: partitionErrorCodes.map((partitionErrorCode, partitionId) => ({
    partitionId,
    partitionErrorCode,
  })),
});

/** What kafkajs makes of the answer, while records to these topics are on their way. */
async function told(topicMetadata: ReturnType<typeof topic>[], ...busy: string[]): Promise<unknown> {
  const sender = {
    // As kafkajs' connection does with an answer.
    send: ({ response }: ProtocolRequest): Promise<unknown> => response.parse({ brokers: [], topicMetadata } as never),
  };
  const isIdle = (name: string): boolean => !busy.includes(name);
  keepTopicsApart(sender, { isIdle, isRefused: () => false, wrong: new Map() });
  return sender.send({ request: { apiKey: METADATA, apiVersion: 6, encode: jest.fn() }, response: { parse } });
}

describe('Kafka’s answer about several topics', () => {
  it.each([
    ['a right that was taken away', topic('lost', 29)],
    ['a topic that was deleted', topic('lost', 3)],
    ['a partition without a leader', topic('lost', 0, 0, 5)],
  ])('C10: %s fails nothing of other topics, and is asked about again', async (_what, lost) => {
    const answer = await told([topic('a', 0, 0), lost, topic('b', 0, 0)], 'a');
    expect(answer).toMatchObject({
      topicMetadata: [topic('a', 0, 0), { topic: 'lost', topicErrorCode: 0, partitionMetadata: [] }, topic('b', 0, 0)],
    });
  });

  it.each([
    ['TOPIC_AUTHORIZATION_FAILED', topic('lost', 29)],
    ['UNKNOWN_TOPIC_OR_PARTITION', topic('lost', 3)],
    ['LEADER_NOT_AVAILABLE', topic('lost', 0, 5)],
  ])('C10: %s is told of a topic that is being sent to, with its name', async (type, lost) => {
    const error: unknown = await told([topic('idle', 3), topic('a', 0, 0), lost], 'a', 'lost').catch((e: unknown) => e);
    expect(error).toMatchObject({ type });
    expect(topicBehind(error)).toBe('lost');
    expect(topicBehind(new Error('wrapped', { cause: error }))).toBe('lost');
    expect(topicBehind(new Error('another'))).toBeUndefined();
  });

  it('C10: ClientKafka’s sends share it: what it says of one is no failure of the others', async () => {
    const error: unknown = await told([topic('lost', 29)], 'a', 'lost').catch((e: unknown) => e);
    class ClientKafka {}
    const link = new KafkaLink(new ClientKafka() as NestClient);
    const producer = link.watched({ send: () => Promise.reject(error as Error) } as unknown as Producer);
    const failure = (name: string) => producer.send({ topic: name, messages: [] }).catch((e) => link.failure(e));
    expect(await failure('a')).toMatchObject({ blame: 'collateral', error });
    const lost = { blame: 'transport', suspect: 'destination', destination: 'topic "lost"', error: { cause: error } };
    expect(await failure('lost')).toMatchObject(lost);
  });
});
