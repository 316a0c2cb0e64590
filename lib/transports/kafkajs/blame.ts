import { OutboxError } from '../../outbox.errors.js';
import type { Blame, PublishFailure } from '../transport.js';
import { chainOf } from '../chain-of.js';
import { VERDICTS, type Verdict } from './errors.js';
import { topicList, topicName } from './names.js';
import { isOfConnecting } from './providers.js';

export interface KafkaBlame {
  readonly blame: Blame;
  readonly final: boolean;
  readonly suspect: PublishFailure['suspect'] | undefined;
  /** The protocol's name of the error, or its class: fit for a log, free of payloads. */
  readonly name: string;
}

/**
 * Pure, but for what is remembered of an error: that it came of connecting. A name that the table does not have is the
 * transport's fault: a wrong `transport` costs a retry, a wrong `message` would cost a message its life during an outage.
 *
 * @param messages how many shared the rejected request, and in how many `topics`: a culprit among many is found by
 * sending singly; 0: nothing was sent yet
 * @param late whether the deadline had passed: then nobody knows what became of the request, whatever was thrown
 */
export function blameFor(error: unknown, messages: number, topics: number, late = false): KafkaBlame {
  if (late) return { blame: 'transport', final: false, name: 'no answer in time', suspect: undefined };
  const name = nameOf(error);
  const { fault, final = false, suspect } = VERDICTS.get(name) ?? UNNAMED;
  // Before there is a connection no message can be at fault, whatever a token provider or a list of brokers threw.
  if (messages === 0) return { blame: 'transport', final: false, name, suspect: undefined };
  if (fault === 'transport') return { blame: 'transport', final: false, name, suspect };
  // Nor where it was lost, and kafkajs connected again within the send.
  if (isOfConnecting(error)) return { blame: 'transport', final: false, name, suspect: undefined };
  const known = messages === 1 || (fault === 'topic' && topics === 1);
  return known
    ? { blame: 'message', final, name, suspect: undefined }
    : { blame: 'collateral', final: false, name, suspect: undefined };
}

const UNNAMED: Verdict = { fault: 'transport' };

/** Whether what it names is as true of the next message to the topic, until somebody or time mends it. */
export function isOfTopic(name: string | undefined): boolean {
  const { fault, final, suspect } = VERDICTS.get(name ?? '') ?? UNNAMED;
  return (fault === 'topic' && final !== true) || suspect === 'destination';
}

interface KafkaErrorLike {
  readonly name?: unknown;
  readonly type?: unknown;
  readonly code?: unknown;
}

/**
 * kafkajs wraps: a refused connection arrives as KafkaJSNonRetriableError or KafkaJSNumberOfRetriesExceeded around
 * KafkaJSConnectionError, a protocol error around the one that has the `type`. The innermost name says most.
 */
function nameOf(error: unknown): string {
  let name = 'UNKNOWN_ERROR';
  for (const one of chainOf(error) as KafkaErrorLike[]) {
    if (typeof one.type === 'string') return one.type;
    if (typeof one.code === 'string') name = one.code;
    else if (typeof one.name === 'string') name = one.name;
  }
  return name;
}

type Judged = Pick<KafkaBlame, 'blame' | 'final'> & Partial<Pick<KafkaBlame, 'suspect' | 'name'>>;

/** @param topic the one that it was for, when it was one */
export function failure({ blame, final, suspect, name }: Judged, error: unknown, topic?: string): PublishFailure {
  const destination = topic !== undefined && isOfTopic(name) ? topicName(topic) : undefined;
  const isMissing = name === MISSING;
  // As true of the next message to the topic; of a right, perhaps of all topics.
  if (destination !== undefined && blame === 'message' && (isMissing || name === DENIED))
    return {
      ok: false,
      blame: 'transport',
      error,
      suspect: 'destination',
      destination,
      ...(isMissing && { certain: true }),
    };
  return {
    ok: false,
    blame,
    error,
    ...(final && { final }),
    ...(suspect !== undefined && { suspect }),
    ...(destination !== undefined && { destination }),
  };
}

export const MISSING = 'UNKNOWN_TOPIC_OR_PARTITION';
const DENIED = 'TOPIC_AUTHORIZATION_FAILED';

/** @param topics those that it is about */
export function describe(
  { blame, name, suspect }: KafkaBlame,
  cause: unknown,
  topics: readonly string[] = [],
): OutboxError {
  if (cause instanceof OutboxError) return cause;
  // What is away for all is not about these topics.
  const where =
    topics.length === 0 || (blame === 'transport' && suspect === undefined) ? '' : ` to ${topicList(topics)}`;
  const [topic] = topics;
  if (topic !== undefined && blame === 'message' && name === MISSING)
    return rejected(
      `There is no topic ${topicList([topic])} (${name}). Create it, for example: kafka-topics.sh --create --topic ${topic}.`,
      cause,
    );
  if (blame === 'transport') return unavailable(`Kafka did not take the messages${where} (${name}).`, cause);
  return rejected(`Kafka refused the ${blame === 'message' ? 'message' : 'request'}${where} (${name}).`, cause);
}

export function unavailable(text: string, cause?: unknown): OutboxError {
  return new OutboxError('TRANSPORT_UNAVAILABLE', text, { cause });
}

export function rejected(text: string, cause?: unknown): OutboxError {
  return new OutboxError('PUBLISH_REJECTED', text, { cause });
}
