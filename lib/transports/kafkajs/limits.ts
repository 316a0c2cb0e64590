import type { HeaderValue, KafkaMessageOptions, MessageHeaders, OutboxMessage } from '../../outbox-message.js';
import { OutboxMessageError } from '../../outbox.errors.js';
import type { CheckedMessage, TransportLimits } from '../transport.js';
import { noObject, unknownOption } from '../../options/option-names.js';

/** Kafka's default for a topic's `max.message.bytes`: the size of a record batch, headers and all. */
export const MAX_MESSAGE_BYTES = 1_048_588;
const KEY_BYTES = 2048;
const HEADER_BYTES = 8192;
/** Key, headers, and what the record batch and the standard headers add. */
const OVERHEAD = KEY_BYTES + HEADER_BYTES + 2048;
/** Leaves a byte for a payload. */
export const LEAST_MESSAGE_BYTES = OVERHEAD + 1;
/** Lengths, offsets and attributes of batch and record, names and lengths of the standard headers, id, version and time. */
const FIXED = 320;
/** Two lengths of up to five bytes. */
const HEADER_LENGTHS = 10;
const TOPIC_LENGTH = 249;
/** The broker's own, which takes nothing of ours. */
const INTERNAL = new Set(['__consumer_offsets', '__transaction_state']);

export interface KafkaLimitSettings {
  readonly topicPrefix?: string | undefined;
  readonly maxMessageBytes?: number | undefined;
  /** On every message. */
  readonly headers?: MessageHeaders | undefined;
  readonly cloudEvents?: boolean;
}

export function kafkaLimits(settings: KafkaLimitSettings = {}): TransportLimits {
  const { topicPrefix = '', maxMessageBytes = MAX_MESSAGE_BYTES, cloudEvents = false } = settings;
  const fixed = FIXED + headerSize(settings.headers ?? {}) + (cloudEvents ? 1024 : 0);
  return {
    topicBytes: TOPIC_LENGTH - topicPrefix.length,
    keyBytes: KEY_BYTES,
    headerBytes: HEADER_BYTES,
    payloadBytes: maxMessageBytes - OVERHEAD,
    tombstones: true,
    checkTopic: (topic) => topicProblem(topicPrefix + topic),
    check: (message) =>
      noObject('options.kafka', message.options.kafka) ??
      optionsProblem(message.options.kafka) ??
      unknownOption('options.kafka', message.options.kafka, OPTIONS) ??
      nameProblem(message.headers, cloudEvents) ??
      sizeProblem(message, fixed, maxMessageBytes),
  };
}

/** The broker's own rule. */
export function topicProblem(topic: string): string | undefined {
  if (topic.length === 0) return 'is empty';
  if (topic.length > TOPIC_LENGTH) return `is longer than ${TOPIC_LENGTH} characters`;
  if (topic === '.' || topic === '..') return 'must not be "." or ".."';
  if (!/^[a-zA-Z0-9._-]+$/.test(topic)) return 'may hold only letters, digits, ".", "_" and "-"';
  return INTERNAL.has(topic) ? 'is one of the broker itself' : undefined;
}

/** Whatever the caller says, these are written by the outbox. */
const STANDARD_NAMES = ['id', 'type', 'version', 'time', 'content-type'];

/** A consumer of Nest or of Spring sends its answer there: whoever chose the headers would choose the topic. */
const REPLY_NAMES = ['kafka_replyTopic', 'kafka_replyPartition'];

function nameProblem(headers: MessageHeaders, cloudEvents: boolean): string | undefined {
  for (const name of Object.keys(headers)) {
    const reserved = cloudEvents ? name === 'content-type' || name.startsWith('ce_') : STANDARD_NAMES.includes(name);
    if (reserved) return `the header name ${name} is reserved`;
  }
  return replyProblem(headers);
}

function replyProblem(headers: MessageHeaders): string | undefined {
  const name = REPLY_NAMES.find((one) => Object.hasOwn(headers, one));
  return name && `the header name ${name} is reserved, as a consumer would send its answer there`;
}

/** Of rows that nobody checked at their enqueue. The transport's own headers are the application's. */
export function refuseReplies(message: OutboxMessage): void {
  const problem = message.headersJson === null ? undefined : replyProblem(message.headers);
  if (problem !== undefined) throw new OutboxMessageError('INVALID_MESSAGE', `The message cannot be sent: ${problem}.`);
}

/** Over one of them kafkajs throws away the whole request, with an error that speaks of no message. */
export function noTopic(): OutboxMessageError {
  return new OutboxMessageError('INVALID_MESSAGE', 'The message cannot be sent: it has no topic.');
}

const OPTIONS: readonly (keyof KafkaMessageOptions)[] = ['partition', 'timestamp'];
const MAX_PARTITION = 2 ** 31 - 1;

function optionsProblem(options: KafkaMessageOptions | undefined): string | undefined {
  if (options === undefined) return undefined;
  const { partition, timestamp } = options;
  if (partition !== undefined && !isIntegerUpTo(partition, MAX_PARTITION))
    return 'partition must be the number of a partition';
  if (timestamp !== undefined && !isIntegerUpTo(timestamp, Number.MAX_SAFE_INTEGER))
    return 'timestamp must be whole milliseconds since 1970';
  return undefined;
}

/** As a record batch of its own. The limits by themselves add up to less, except with several values under long names. */
function sizeProblem(message: CheckedMessage, fixed: number, limit: number): string | undefined {
  const { payloadBytes, key, type, contentType, headers } = message;
  const texts =
    Buffer.byteLength(type) + Buffer.byteLength(contentType) + (key === null ? 0 : 2 * Buffer.byteLength(key));
  const size = payloadBytes + texts + headerSize(headers) + fixed;
  return size > limit ? `its record has up to ${size} bytes, more than maxMessageBytes (${limit})` : undefined;
}

/** Kafka repeats the name for each of several values. */
export function headerSize(headers: MessageHeaders): number {
  let size = 0;
  for (const name of Object.keys(headers)) {
    const value = headers[name] as HeaderValue;
    const values = Array.isArray(value) ? (value as readonly (string | Uint8Array)[]) : [value as string];
    for (const one of values) size += Buffer.byteLength(name) + Buffer.byteLength(one as string) + HEADER_LENGTHS;
  }
  return size;
}

function isIntegerUpTo(value: unknown, max: number): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= max;
}
