import type { ProtocolRequest } from '../../../../lib/transports/kafkajs/produce-response.js';
import { keepTopicsApart } from '../../../../lib/transports/kafkajs/metadata.js';

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
  ])('C10: %s is told of a topic that is being sent to', async (type, lost) => {
    const error: unknown = await told([topic('idle', 3), topic('a', 0, 0), lost], 'a', 'lost').catch((e: unknown) => e);
    expect(error).toMatchObject({ type });
  });
});
