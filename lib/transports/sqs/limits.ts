import { ENCRYPTION_OPTION, type OutboxMessage } from '../../outbox-message.js';
import type { Envelope } from '../envelope.js';
import type { CheckedMessage, TransportLimits } from '../transport.js';
import { attributesOf, OUTBOX_ATTRIBUTES } from './entry.js';
import type { SqsSettings } from './options.js';
import type { Queues } from './queues.js';

/** What the outbox's own attributes take, but for a long type or key. */
const OVERHEAD = 1_024;

export function sqsLimits(
  { maxMessageBytes, queueUrl }: SqsSettings,
  queues: Queues,
  envelope: Envelope,
): TransportLimits {
  return {
    ...(typeof queueUrl === 'function' ? {} : { checkTopic: (topic) => queues.problemOf(topic) }),
    payloadBytes: maxMessageBytes - OVERHEAD,
    tombstones: true,
    check: (message) => nameProblem(message) ?? sizeProblem(message, envelope, maxMessageBytes),
  };
}

function nameProblem({ headers }: CheckedMessage): string | undefined {
  const name = OUTBOX_ATTRIBUTES.find((one) => Object.hasOwn(headers, one));
  return name && `the header name ${name} is reserved`;
}

/** What is said to be text is taken for text: JSON escapes nearly all that SQS refuses. */
const TEXT = /^text\/|[/+](?:json|xml|yaml)\b/i;

function sizeProblem(message: CheckedMessage, envelope: Envelope, most: number): string | undefined {
  const { payloadBytes, contentType, headers, options, key } = message;
  const isText = TEXT.test(contentType) && options[ENCRYPTION_OPTION] === undefined;
  const all = envelope({
    ...message,
    ...LONGEST,
    headersJson: Object.keys(headers).length === 0 ? null : '{}',
  } as never);
  const { bytes } = attributesOf(all, key, isText ? undefined : 'base64');
  const size = bytes + (isText ? payloadBytes : 4 * Math.ceil(payloadBytes / 3));
  if (size <= most) return undefined;
  return `it takes ${size} bytes of SQS${isText ? '' : ', its payload in base64'}, and maxMessageBytes is ${most}`;
}

/** Of what a message gets when it is stored. */
const LONGEST: Pick<OutboxMessage, 'id' | 'version' | 'createdText'> = {
  id: '0'.repeat(36),
  version: 2 ** 31 - 1,
  createdText: '2000-01-01 00:00:00.000',
};
