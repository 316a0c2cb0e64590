import type { ProtocolRequest, RequestSender } from './produce-response.js';

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

/** kafkajs' own part of a producer: the topics that it asks about, and asks now when there are more of them. */
export interface TopicQuestion {
  targetTopics?: unknown;
  addMultipleTargetTopics: (topics: string[]) => Promise<void>;
}

/**
 * Asks about the topics that the producer does not know yet, without kafkajs' retries; `news.wrong` has the answer. What
 * was wrong before is asked about again. Never rejects: who sends finds the same trouble.
 */
export async function askAbout(
  topics: readonly string[],
  question: TopicQuestion | undefined,
  news: Pick<TopicNews, 'wrong'>,
): Promise<void> {
  const known = question?.targetTopics;
  if (question === undefined || !(known instanceof Set)) return;
  for (const topic of news.wrong.keys()) known.delete(topic);
  news.wrong.clear();
  if (topics.every((topic) => known.has(topic))) return;
  await question.addMultipleTargetTopics([...topics]).catch(() => undefined);
}

/** What brokers say of topics to whoever asks for one of a producer's. */
export interface TopicNews {
  /** Whether no records are on their way there now. */
  isIdle(topic: string): boolean;
  /** Whether it was refused before, so that asking again at once is of no use. */
  isRefused(topic: string): boolean;
  /** By topic: what is wrong with it, as kafkajs puts it. One that is right is taken off. */
  readonly wrong: Map<string, unknown>;
}

/**
 * kafkajs goes on asking about every topic that a producer was ever used for, and fails the whole answer over the first with
 * which something is wrong: one that was deleted, or to which the right was taken away, would be the failure of messages to
 * others. From here on such a topic is one without partitions, about which kafkajs asks again before it sends anything there.
 */
export function keepTopicsApart(sender: RequestSender, news: TopicNews): void {
  const send = sender.send.bind(sender);
  sender.send = (protocol) => send(protocol.request.apiKey === METADATA ? judgingTopics(protocol, news) : protocol);
}

function judgingTopics(protocol: ProtocolRequest, news: TopicNews): ProtocolRequest {
  const { response } = protocol;
  const parse = async (answer: MetadataAnswer): Promise<unknown> => {
    const topicMetadata: TopicMetadata[] = [];
    let first: unknown;
    for (const each of answer.topicMetadata) {
      const problem = isWrong(each)
        ? await thrownBy(() => response.parse({ ...answer, topicMetadata: [each] } as never))
        : undefined;
      if (problem === undefined) news.wrong.delete(each.topic);
      else news.wrong.set(each.topic, problem);
      topicMetadata.push(problem === undefined ? each : { ...each, topicErrorCode: 0, partitionMetadata: [] });
      if (problem === undefined || first !== undefined || news.isIdle(each.topic)) continue;
      first = problem;
      // kafkajs' word for "not again".
      if (news.isRefused(each.topic)) Object.assign(problem as object, { retriable: false });
    }
    if (first !== undefined) throw first as Error;
    return response.parse({ ...answer, topicMetadata } as never);
  };
  return { ...protocol, response: { ...response, parse } };
}

function isWrong({ topicErrorCode, partitionMetadata }: TopicMetadata): boolean {
  return topicErrorCode !== 0 || partitionMetadata.some(({ partitionErrorCode }) => partitionErrorCode !== 0);
}

async function thrownBy(parse: () => Promise<unknown>): Promise<unknown> {
  try {
    await parse();
    return undefined;
  } catch (error) {
    return error;
  }
}
