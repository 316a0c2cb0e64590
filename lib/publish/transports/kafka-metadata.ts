import { chainOf } from './chain-of.js';
import type { ProtocolRequest, RequestSender } from './kafka-answers.js';

const METADATA = 3;
/** Lengths of a list of topics, from version 1 on. */
const ALL = -1;
const NONE = 0;

/**
 * A new producer knows no topic yet, and kafkajs takes that for a question about all of them: it does not open while any
 * partition in the cluster, whosever it is, has no leader. From here on it asks about none; brokers and controller are in
 * that answer too.
 */
export function askAboutNoOthers(sender: RequestSender): void {
  const send = sender.send.bind(sender);
  sender.send = (protocol) =>
    send(isQuestion(protocol) ? { ...protocol, request: narrowed(protocol.request) } : protocol);
}

function isQuestion({ request }: ProtocolRequest): boolean {
  return request.apiKey === METADATA && request.apiVersion >= 1;
}

function narrowed(request: ProtocolRequest['request']): ProtocolRequest['request'] {
  const encode = async (): Promise<{ readonly buffer: Buffer }> => {
    const encoded = await request.encode();
    // A view: what is written here is what is sent.
    if (encoded.buffer.readInt32BE(0) === ALL) encoded.buffer.writeInt32BE(NONE, 0);
    return encoded;
  };
  return { ...request, encode };
}

interface TopicMetadata {
  readonly topicErrorCode: number;
  readonly topic: string;
  readonly partitionMetadata: readonly { readonly partitionErrorCode: number }[];
}
interface MetadataAnswer {
  readonly topicMetadata: readonly TopicMetadata[];
}

/** Topics by the error that kafkajs made of them. */
const topics = new WeakMap<object, string>();

/**
 * kafkajs goes on asking about every topic that a producer was ever used for, and fails the whole answer over the first with
 * which something is wrong: one that was deleted, or to which the right was taken away, would be the failure of messages to
 * others. From here on such a topic is one without partitions, about which kafkajs asks again before it sends anything there.
 */
export function keepTopicsApart(sender: RequestSender, isIdle: (topic: string) => boolean): void {
  const send = sender.send.bind(sender);
  sender.send = (protocol) => send(protocol.request.apiKey === METADATA ? judgingTopics(protocol, isIdle) : protocol);
}

function judgingTopics(protocol: ProtocolRequest, isIdle: (topic: string) => boolean): ProtocolRequest {
  const { response } = protocol;
  const parse = async (answer: MetadataAnswer): Promise<unknown> => {
    const topicMetadata = answer.topicMetadata.map((each) =>
      isWrong(each) && isIdle(each.topic) ? { ...each, topicErrorCode: 0, partitionMetadata: [] } : each,
    );
    try {
      return await response.parse({ ...answer, topicMetadata } as never);
    } catch (error) {
      // As kafkajs chooses.
      const first = topicMetadata.find(({ topicErrorCode }) => topicErrorCode !== 0) ?? topicMetadata.find(isWrong);
      if (first !== undefined) topics.set(error as object, first.topic);
      throw error;
    }
  };
  return { ...protocol, response: { ...response, parse } };
}

function isWrong({ topicErrorCode, partitionMetadata }: TopicMetadata): boolean {
  return topicErrorCode !== 0 || partitionMetadata.some(({ partitionErrorCode }) => partitionErrorCode !== 0);
}

/** The topic that a rejected send failed over before anything was sent there; not always its own. */
export function topicBehind(error: unknown): string | undefined {
  const one = chainOf(error).find((each) => topics.has(each));
  return one && topics.get(one);
}
