import type { Blame } from '../transport.js';

/** Whose fault a Kafka error is, before it is known how many messages shared the request. */
type Fault =
  /** One of the messages; which one is known only when it was alone. */
  | 'message'
  /** The topic: every message to it, when the request had only that topic. */
  | 'topic'
  /** Connection, cluster, credentials, producer state: nobody's messages. */
  | 'transport';
interface Verdict {
  readonly fault: Fault;
  /** Can never succeed, whatever an operator does to the cluster. */
  readonly final?: true;
}

/**
 * By the protocol's error name. What is missing is the transport's fault: a wrong `transport` costs a retry, a wrong
 * `message` would cost a message its life during an outage.
 * Neither a missing topic nor a missing right is final: somebody creates the topic or grants the right.
 */
const VERDICTS: Readonly<Record<string, Verdict>> = {
  MESSAGE_TOO_LARGE: { fault: 'message', final: true },
  RECORD_LIST_TOO_LARGE: { fault: 'message', final: true },
  // For example: no key on a compacted topic.
  INVALID_RECORD: { fault: 'message', final: true },
  INVALID_TIMESTAMP: { fault: 'message', final: true },
  CORRUPT_MESSAGE: { fault: 'message' },
  POLICY_VIOLATION: { fault: 'message' },
  INVALID_TOPIC_EXCEPTION: { fault: 'topic', final: true },
  UNKNOWN_TOPIC_OR_PARTITION: { fault: 'topic' },
  TOPIC_AUTHORIZATION_FAILED: { fault: 'topic' },
  UNSUPPORTED_FOR_MESSAGE_FORMAT: { fault: 'topic' },
};
/** What an encoder or a custom partitioner throws over one record. */
const LOCAL_ERRORS: ReadonlySet<string> = new Set(['TypeError', 'RangeError']);
const TRANSPORT: Verdict = { fault: 'transport' };

export interface KafkaBlame {
  readonly blame: Blame;
  readonly final: boolean;
  /** The protocol's name of the error, or its class: fit for a log, free of payloads. */
  readonly name: string;
}

/** `messages` and `topics`: how many shared the rejected request. A culprit among many is found by sending singly. */
export function blameFor(error: unknown, messages: number, topics: number): KafkaBlame {
  const name = nameOf(error);
  const { fault, final = false } =
    VERDICTS[name] ?? (LOCAL_ERRORS.has(name) ? { fault: 'message' as const } : TRANSPORT);
  if (fault === 'transport') return { blame: 'transport', final: false, name };
  const known = messages === 1 || (fault === 'topic' && topics === 1);
  return known ? { blame: 'message', final: final === true, name } : { blame: 'collateral', final: false, name };
}

interface KafkaErrorLike {
  readonly name?: unknown;
  readonly type?: unknown;
  readonly code?: unknown;
  readonly cause?: unknown;
}

/**
 * kafkajs wraps: a refused connection arrives as KafkaJSNonRetriableError or KafkaJSNumberOfRetriesExceeded around
 * KafkaJSConnectionError, a protocol error around the one that has the `type`. The innermost name says most.
 */
function nameOf(error: unknown): string {
  let name = 'UNKNOWN_ERROR';
  let current = error as KafkaErrorLike | null | undefined;
  for (let depth = 0; depth < 5 && typeof current === 'object' && current !== null; depth += 1) {
    if (typeof current.type === 'string') return current.type;
    if (typeof current.code === 'string') name = current.code;
    else if (typeof current.name === 'string') name = current.name;
    current = current.cause as KafkaErrorLike | undefined;
  }
  return name;
}
