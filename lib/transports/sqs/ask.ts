import { found, isOk, type Finding } from '../diagnosis.js';
import type { BrokerQuestion, ExpectedMessages, MissingDestination } from '../transport.js';
import type { SqsRequests } from './client.js';
import { isDenied, isMissing, judge, missing, reasonOf, statusOf } from './errors.js';
import type { SqsSettings } from './options.js';
import type { Queue, Queues } from './queues.js';

/** Queues of one question: each takes a request. */
const MOST = 200;
/** Of requests at the same time. */
const TOGETHER = 10;
/** No queue needs to have this name: an answer that there is none, or that this login may not ask, says as much. */
const PROBE = 'nestjs-outbox';

/** Proves that SQS answers, and knows who asks. It takes no right. @throws what keeps it from that */
export async function prove(requests: SqsRequests, signal: AbortSignal, isLast = false): Promise<void> {
  try {
    await requests.ask('GetQueueUrlCommand', { QueueName: PROBE }, signal);
  } catch (error) {
    if (isMissing(error) || isDenied(error)) return;
    if (isLast || ![400, 401, 403].includes(statusOf(error))) throw judge(error).error;
    await prove(requests, signal, true); // by the clock of SQS, which the SDK knows from the refusal
  }
}

export async function findMissing(
  requests: SqsRequests,
  queues: Queues,
  expected: readonly ExpectedMessages[],
  signal: AbortSignal,
): Promise<MissingDestination[]> {
  const answers = await look(requests, queuesOf(queues, expected), [], signal);
  return answers.flatMap(({ queue: { destination }, error }) => {
    if (error === undefined || isDenied(error)) return [];
    if (!isMissing(error)) throw judge(error).error;
    return [{ destination, error: missing(destination, reasonOf(error), error) }];
  });
}

export async function diagnose(
  requests: SqsRequests,
  queues: Queues,
  { transport, expected }: BrokerQuestion,
  { maxMessageBytes }: SqsSettings,
  signal: AbortSignal,
): Promise<Finding[]> {
  const answers = await look(requests, queuesOf(queues, expected), ['All'], signal);
  return [
    isOk('broker', `SQS answers to '${transport}'.`, { transport }),
    ...answers.flatMap((answer) => ofQueue(transport, answer, maxMessageBytes)),
  ];
}

interface QueueAnswer {
  readonly queue: Queue;
  readonly error?: unknown;
  /** Where they were asked for, and may be seen. */
  readonly attributes?: Readonly<Record<string, string>>;
}

/** The queues of topics, as far as the application's function gives them. */
function queuesOf(queues: Queues, expected: readonly ExpectedMessages[]): Queue[] {
  const all = new Map<string, Queue>();
  for (const { topic } of expected) {
    if (all.size === MOST) break;
    try {
      const queue = queues.of(topic);
      all.set(queue.destination, queue);
    } catch {
      // Each of its messages says so.
    }
  }
  return [...all.values()];
}

/** @param names of attributes; none: whether the queue is there */
async function look(
  requests: SqsRequests,
  queues: readonly Queue[],
  names: readonly string[],
  signal: AbortSignal,
): Promise<QueueAnswer[]> {
  const answers: QueueAnswer[] = [];
  const ask = async (queue: Queue): Promise<QueueAnswer> => {
    try {
      const { url: known, name } = queue;
      const QueueUrl = known ?? (await requests.ask('GetQueueUrlCommand', { QueueName: name }, signal)).QueueUrl;
      if (known === undefined && names.length === 0) return { queue };
      const AttributeNames = names.length === 0 ? ['QueueArn'] : names;
      const { Attributes = {} } = await requests.ask('GetQueueAttributesCommand', { QueueUrl, AttributeNames }, signal);
      return { queue, attributes: Attributes };
    } catch (error) {
      return { queue, error };
    }
  };
  for (let n = 0; n < queues.length; n += TOGETHER)
    answers.push(...(await Promise.all(queues.slice(n, n + TOGETHER).map(ask))));
  return answers;
}

function ofQueue(transport: string, { queue, error, attributes = {} }: QueueAnswer, limit: number): Finding[] {
  const { destination } = queue;
  if (isMissing(error))
    return [
      found(
        'destination-missing',
        'error',
        {
          text: `SQS has no ${destination} for messages of '${transport}', or hides it from this login.`,
          evidence: { transport, destination },
        },
        'Its messages wait; no attempt is charged.',
        'Create the queue, or say by queueUrl of sqs() which queue takes the messages of the topic.',
      ),
    ];
  if (error !== undefined) return [notAsked(transport, destination, reasonOf(error))];
  const amount = (name: string): number | null => (attributes[name] === undefined ? null : Number(attributes[name]));
  const evidence = {
    transport,
    destination,
    messages: amount('ApproximateNumberOfMessages'),
    retentionSeconds: amount('MessageRetentionPeriod'),
    maximumMessageBytes: amount('MaximumMessageSize'),
    hasDeadLetterQueue: attributes['RedrivePolicy'] !== undefined,
  };
  const { maximumMessageBytes, hasDeadLetterQueue } = evidence;
  return [
    isOk('destination', `SQS has ${destination}.`, evidence),
    ...(maximumMessageBytes !== null && maximumMessageBytes < limit ? [small(evidence, limit)] : []),
    ...(hasDeadLetterQueue ? [] : [withoutDeadLetters(evidence)]),
  ];
}

const notAsked = (transport: string, destination: string, reason: string): Finding =>
  found(
    'not-asked',
    'warning',
    { text: `SQS does not tell about ${destination}: ${reason}.`, evidence: { transport, destination, reason } },
    'Whether messages get there is not known.',
    'Give the login the rights sqs:GetQueueUrl and sqs:GetQueueAttributes on the queue.',
  );

const small = (evidence: Finding['evidence'], limit: number): Finding =>
  found(
    'message-size',
    'warning',
    {
      text: `${String(evidence['destination'])} takes messages of up to ${String(evidence['maximumMessageBytes'])} bytes, and enqueue takes up to ${limit}.`,
      evidence: { ...evidence, maxMessageBytes: limit },
    },
    'A message between the two is refused, and dies after its attempts.',
    'Raise MaximumMessageSize of the queue, or lower maxMessageBytes of sqs().',
  );

const withoutDeadLetters = (evidence: Finding['evidence']): Finding =>
  found(
    'dead-letters',
    'note',
    { text: `${String(evidence['destination'])} has no dead-letter queue.`, evidence },
    'A message that its consumer cannot handle is delivered again until its retention ends, and is then deleted.',
    'Set a RedrivePolicy for the queue.',
  );
