/** What the broker said about one partition of a produce request. */
export interface PartitionAnswer {
  readonly topicName: string;
  readonly partition: number;
  readonly errorCode: number;
  readonly baseOffset: string;
}
interface ProduceAnswer {
  readonly topics: readonly {
    readonly topicName: string;
    readonly partitions: readonly Omit<PartitionAnswer, 'topicName'>[];
  }[];
}

/** kafkajs' own request, with the reader of its answer; and what sends it. */
export interface ProtocolRequest {
  readonly request: {
    readonly apiKey: number;
    readonly apiVersion: number;
    readonly encode: () => Promise<{ readonly buffer: Buffer }>;
  };
  readonly response: { readonly parse: (answer: never) => Promise<unknown> };
}
export interface RequestSender {
  send: (request: ProtocolRequest) => Promise<unknown>;
}

const PRODUCE = 0;
/** Answers by the error that kafkajs made of them. */
const answers = new WeakMap<object, readonly PartitionAnswer[]>();

/**
 * When the broker refuses one partition of a produce request, kafkajs throws its error and forgets what the answer says
 * about the others, which are stored. From here on it is kept, with the error.
 */
export function keepAnswers(sender: RequestSender): void {
  const send = sender.send.bind(sender);
  sender.send = (protocol) => send(protocol.request.apiKey === PRODUCE ? keepingAnswer(protocol) : protocol);
}

function keepingAnswer(protocol: ProtocolRequest): ProtocolRequest {
  const { response } = protocol;
  const parse = async (answer: ProduceAnswer): Promise<unknown> => {
    try {
      return await response.parse(answer as never);
    } catch (error) {
      answers.set(error as object, flat(answer));
      throw error;
    }
  };
  return { ...protocol, response: { ...response, parse } };
}

function flat({ topics }: ProduceAnswer): PartitionAnswer[] {
  return topics.flatMap(({ topicName, partitions }) => partitions.map((answer) => ({ ...answer, topicName })));
}

/** The answer behind a rejected send, if there was one: kafkajs wraps its errors. */
export function answerBehind(error: unknown): readonly PartitionAnswer[] {
  let current = error as { cause?: unknown } | null | undefined;
  for (let depth = 0; depth < 5 && typeof current === 'object' && current !== null; depth += 1) {
    const answer = answers.get(current);
    if (answer !== undefined) return answer;
    current = current.cause as typeof current;
  }
  return [];
}
