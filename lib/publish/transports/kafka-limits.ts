import type { TransportLimits } from '../transport.js';

/** Kafka's default for a topic's `max.message.bytes`: the size of a record batch, headers and all. */
export const MAX_MESSAGE_BYTES = 1_048_588;
const KEY_BYTES = 2048;
const HEADER_BYTES = 8192;
/** Key, headers, and what the record batch and the standard headers add. */
const OVERHEAD = KEY_BYTES + HEADER_BYTES + 2048;
const TOPIC_LENGTH = 249;

export function kafkaLimits(topicPrefix: string, maxMessageBytes: number): TransportLimits {
  return {
    topicBytes: TOPIC_LENGTH - topicPrefix.length,
    keyBytes: KEY_BYTES,
    headerBytes: HEADER_BYTES,
    payloadBytes: Math.max(0, maxMessageBytes - OVERHEAD),
    tombstones: true,
    checkTopic: (topic) => topicProblem(topicPrefix + topic),
  };
}

/** The broker's own rule. */
export function topicProblem(topic: string): string | undefined {
  if (topic.length === 0) return 'is empty';
  if (topic.length > TOPIC_LENGTH) return `is longer than ${TOPIC_LENGTH} characters`;
  if (topic === '.' || topic === '..') return 'must not be "." or ".."';
  if (!/^[a-zA-Z0-9._-]+$/.test(topic)) return 'may hold only letters, digits, ".", "_" and "-"';
  return undefined;
}
