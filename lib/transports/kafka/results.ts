import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxMessageError } from '../../outbox.errors.js';
import type { PublishFailure, PublishResult } from '../transport.js';
import { show } from '../../options/show.js';
import { failure, rejected, unavailable, type KafkaBlame } from '../kafkajs/blame.js';
import { topicList } from '../kafkajs/names.js';

export type Results = (PublishResult | undefined)[];
/** Refused beside others, and what was said is about those. */
export const UNKNOWN_REASON: KafkaBlame = {
  blame: 'collateral',
  final: false,
  suspect: undefined,
  name: 'with others',
};

/** What is known without a refusal. */
export const UNSENT = {
  /** Headers or options that cannot be read will not be readable later. */
  unreadable: { blame: 'message', final: true },
  /** The partition that it asks for does not exist; it may be added. */
  nowhere: { blame: 'message', final: false },
  /** An earlier message of its key was not published. */
  overtaking: { blame: 'collateral', final: false },
  /** No producer, no time left, or the first of the batch found the broker away. */
  unavailable: { blame: 'transport', final: false },
} as const;

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

export function unreadable(cause: unknown): PublishFailure {
  if (cause instanceof OutboxMessageError) return failure(UNSENT.unreadable, cause);
  const text = 'No Kafka record can be made of the message: its headers or options cannot be read.';
  return failure(UNSENT.unreadable, rejected(text, cause));
}
