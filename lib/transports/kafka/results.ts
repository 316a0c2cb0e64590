import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxError, OutboxMessageError } from '../../outbox.errors.js';
import type { PublishFailure, PublishResult } from '../transport.js';
import { show } from '../../options/show.js';
import { isOfTopic, UNSENT, type KafkaBlame } from './blame.js';
import { topicList, topicName } from './topics.js';

export type Results = (PublishResult | undefined)[];
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

export function fillRest(results: Results, rest: PublishResult): PublishResult[] {
  for (let i = 0; i < results.length; i += 1) results[i] ??= rest;
  return results as PublishResult[];
}

export const SKIPPED = failure(UNSENT.overtaking, rejected('An earlier message of the same key comes first.'));
/** Nothing was sent, and nobody did anything wrong. */
export const THROTTLED = failure(UNSENT.overtaking, unavailable('Kafka throttles this client.'));

/** @param prefix of topics, as Kafka knows them */
export function noPartition(prefix: string, { topic, options }: OutboxMessage): PublishFailure {
  const { partition } = (options['kafka'] ?? {}) as { readonly partition?: unknown };
  const asked = `\`options.kafka.partition\` of the message asks for ${show(partition)}`;
  return failure(UNSENT.nowhere, rejected(`${topicList([prefix + topic])} has no such partition: ${asked}.`));
}

/** Its topic was refused before, and others that were take their time: put off. */
export const NO_TURN: PublishFailure = {
  ok: false,
  blame: 'transport',
  suspect: 'destination',
  error: unavailable('Messages to topics that Kafka refuses wait for one another.'),
};

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

export function unreadable(cause: unknown): PublishFailure {
  if (cause instanceof OutboxMessageError) return failure(UNSENT.unreadable, cause);
  const text = 'No Kafka record can be made of the message: its headers or options cannot be read.';
  return failure(UNSENT.unreadable, rejected(text, cause));
}

export function unavailable(text: string, cause?: unknown): OutboxError {
  return new OutboxError('TRANSPORT_UNAVAILABLE', text, { cause });
}

function rejected(text: string, cause?: unknown): OutboxError {
  return new OutboxError('PUBLISH_REJECTED', text, { cause });
}
