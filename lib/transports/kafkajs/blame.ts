import { OutboxError } from '../../outbox.errors.js';
import type { PublishFailure } from '../transport.js';
import { chainOf } from '../chain-of.js';
import { CAUSE, classify, failed, type Classification, type FailureCause } from '../failure.js';
import { KAFKA_FAILURES } from './errors.js';
import { topicList, topicName } from './names.js';
import { isOfConnecting } from './providers.js';

export interface KafkaBlame extends Classification {
  /** The protocol's name of the error, or its class: fit for a log, free of payloads. */
  readonly name: string;
}

/**
 * Pure, but for what is remembered of an error: that it came of connecting.
 *
 * @param messages how many shared the rejected request, and in how many `topics`; 0: nothing was sent yet
 * @param late whether the deadline had passed: then nobody knows what became of the request, whatever was thrown
 */
export function blameFor(error: unknown, messages: number, topics: number, late = false): KafkaBlame {
  if (late) return { ...classify(CAUSE.transport, 0), name: 'no answer in time' };
  const name = nameOf(error);
  const cause = causeOf(name);
  // A connection that was lost, and that kafkajs opened again within the send, is no message's fault either.
  const isOfMessages = cause.fault !== 'transport' && !isOfConnecting(error);
  return { ...classify(isOfMessages ? cause : { ...cause, fault: 'transport' }, messages, topics), name };
}

function causeOf(name: string): FailureCause {
  return KAFKA_FAILURES.get(name) ?? CAUSE.transport;
}

/** Whether what it names is as true of the next message to the topic, until somebody or time mends it. */
export function isOfTopic(name: string | undefined): boolean {
  const { fault, final, suspect } = causeOf(name ?? '');
  return (fault === 'destination' && final !== true) || suspect === 'destination';
}

/** Whether the broker has no memory of the producer: it was idle for too long, or the id is another one's. */
export function isForgotten(error: unknown): error is Error {
  return FORGOTTEN.includes(nameOf(error));
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

type Known = Pick<KafkaBlame, 'blame'> & Partial<KafkaBlame>;

/** @param topic the one that it was for, when it was one */
export function failure({ blame, final, suspect, name }: Known, error: unknown, topic?: string): PublishFailure {
  const destination = topic !== undefined && isOfTopic(name) ? topicName(topic) : undefined;
  const isMissing = name === MISSING;
  // As true of the next message to the topic; of a right, perhaps of all topics.
  return destination !== undefined && blame === 'message' && (isMissing || name === DENIED)
    ? failed('transport', error, { suspect: 'destination', destination, certain: isMissing })
    : failed(blame, error, { final, suspect, destination });
}

export const MISSING = 'UNKNOWN_TOPIC_OR_PARTITION';
const DENIED = 'TOPIC_AUTHORIZATION_FAILED';
const FORGOTTEN = ['INVALID_PRODUCER_ID_MAPPING', 'UNKNOWN_PRODUCER_ID'];

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

export function timedOut(why?: string): OutboxError {
  return new OutboxError('PUBLISH_TIMEOUT', `Kafka did not answer in time${why === undefined ? '' : ` (${why})`}.`);
}

export function rejected(text: string, cause?: unknown): OutboxError {
  return new OutboxError('PUBLISH_REJECTED', text, { cause });
}
