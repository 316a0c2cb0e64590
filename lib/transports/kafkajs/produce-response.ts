/** What the broker said about one partition of a produce request. */
export interface PartitionAnswer {
  readonly topicName: string;
  readonly partition: number;
  readonly errorCode: number;
  readonly baseOffset: string;
}
interface ProduceAnswer {
  /** Milliseconds for which the broker does not listen to this client: it is over its quota. */
  readonly clientSideThrottleTime?: number;
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

/** To who asks for partitions to be part of a transaction: all or none. */
interface TransactionAnswer {
  readonly errors: readonly {
    readonly topic: string;
    readonly partitionErrors: readonly { readonly errorCode: number; readonly partition: number }[];
  }[];
}

const PRODUCE = 0;
const INIT_PRODUCER_ID = 22;
const ADD_PARTITIONS_TO_TXN = 24;

/** What the brokers said to the produce requests of one send: one to each leader, and again what kafkajs tries again. */
export class ProduceAnswers {
  readonly said: PartitionAnswer[] = [];
  /** Whether a request with records went out. */
  asked = false;
  private readonly outstanding = new Set<Promise<unknown>>();

  get stored(): PartitionAnswer[] {
    return this.said.filter(({ errorCode }) => errorCode === 0);
  }

  /**
   * Resolves at once, unless a broker refused its part: kafkajs gives up with the first refusal, and then the others are about
   * to say that they stored theirs. Ends with the deadline of the send, at which the producer is killed.
   */
  async ofOthers(): Promise<void> {
    if (this.stored.length < this.said.length) await Promise.allSettled(this.outstanding);
  }

  hear({ topics }: ProduceAnswer): void {
    for (const { topicName, partitions } of topics)
      for (const answer of partitions) this.said.push({ ...answer, topicName });
  }

  /** kafkajs throws the first error, which may be that another partition is at fault. */
  hearOfTransaction({ errors }: TransactionAnswer): void {
    for (const { topic: topicName, partitionErrors } of errors)
      for (const { errorCode, partition } of partitionErrors)
        if (errorCode !== 0) this.said.push({ topicName, partition, errorCode, baseOffset: '-1' });
  }

  expect(answer: Promise<unknown>): void {
    this.asked = true;
    this.outstanding.add(answer);
    const forget = (): unknown => this.outstanding.delete(answer);
    answer.then(forget, forget);
  }
}

interface Listener {
  readonly answers: ProduceAnswers | undefined;
  epoch: number;
  readonly use: { onThrottle(ms: number): void };
}

/**
 * When the broker refuses one partition of a produce request, kafkajs throws its error and forgets what this answer, and those
 * of other brokers, say about the others, which are stored. From here on that is kept, for who asks for it.
 */
export function keepAnswers(sender: RequestSender, listener: Listener): void {
  const send = sender.send.bind(sender);
  sender.send = (protocol) => {
    const { apiKey } = protocol.request;
    const { answers } = listener;
    if (apiKey === INIT_PRODUCER_ID)
      return send(heard(protocol, (answer: { producerEpoch: number }) => (listener.epoch = answer.producerEpoch)));
    if (apiKey === ADD_PARTITIONS_TO_TXN && answers !== undefined)
      return send(heard(protocol, (answer: TransactionAnswer) => answers.hearOfTransaction(answer)));
    if (apiKey !== PRODUCE) return send(protocol);
    const hear = (produced: ProduceAnswer): void => {
      listener.use.onThrottle(produced.clientSideThrottleTime ?? 0);
      answers?.hear(produced);
    };
    const answer = send(heard(protocol, hear));
    answers?.expect(answer);
    return answer;
  };
}

function heard<Answer>(protocol: ProtocolRequest, hear: (answer: Answer) => unknown): ProtocolRequest {
  const { response } = protocol;
  const parse = (answer: Answer): Promise<unknown> => {
    hear(answer);
    return response.parse(answer as never);
  };
  return { ...protocol, response: { ...response, parse } };
}
