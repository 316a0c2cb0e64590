import { OutboxError, type OutboxErrorCode } from '../../outbox.errors.js';
import { chainOf } from '../chain-of.js';
import { CAUSE, failureTable, NODE_ROWS, rowOf, type FailureCause, type FailureTable } from '../failure.js';
import type { Verdict } from '../session/session.js';

/** What keeps a message from its stream. */
export type NatsReason =
  /** No stream has the subject, or none that has a leader now. */
  | 'no-stream'
  /** JetStream answered with an error, which has a number. */
  | 'refused'
  /** The login has no right to publish to the subject. */
  | 'denied'
  /** It never left this process: NATS cannot carry it. */
  | 'not-encodable'
  /** `subject()` of the options failed. */
  | 'no-subject'
  /** Larger than the server's `max_payload`. */
  | 'too-large';

interface Trouble {
  readonly reason: NatsReason;
  readonly subject?: string;
  /** What is wrong, in words. */
  readonly problem?: string;
  readonly errorCode?: number;
  /** JetStream's kind of the error, as HTTP has it. */
  readonly status?: number;
  readonly cause?: unknown;
}

/** What a failed publish says; `reason` and `errorCode` are for `retry.classify`. */
export class NatsPublishError extends OutboxError {
  readonly reason: NatsReason;
  /** JetStream's number of the error, such as 10077. */
  readonly errorCode: number | undefined;
  /** @internal */
  readonly trouble: Trouble;

  constructor(code: OutboxErrorCode, message: string, trouble: Trouble) {
    super(code, message, trouble.cause === undefined ? {} : { cause: trouble.cause });
    this.reason = trouble.reason;
    this.errorCode = trouble.errorCode;
    this.trouble = trouble;
    Object.defineProperty(this, 'trouble', { enumerable: false });
  }
}

export function failed(trouble: Trouble): NatsPublishError {
  return new NatsPublishError('PUBLISH_REJECTED', textOf(trouble), trouble);
}

function textOf({ reason, subject, problem, errorCode }: Trouble): string {
  switch (reason) {
    case 'no-stream':
      return `No stream takes the subject "${subject}". Create one: nats stream add --subjects '${subject}'. A stream without a leader takes nothing either.`;
    case 'refused':
      return `JetStream refused the message to "${subject}" (${errorCode}: ${problem}).`;
    case 'denied':
      return `The login may not publish to "${subject}".`;
    default:
      return `NATS cannot carry the message: ${problem}.`;
  }
}

export const subjectName = (subject: string): string => `subject "${subject}"`;

const FINAL: FailureCause = { fault: 'message', final: true };
const OF_DESTINATION: FailureCause = { fault: 'transport', suspect: 'destination' };

/** Until somebody changes the stream, or takes messages out of it: nothing else is concerned. */
const OF_THE_STREAM = [
  '10060', // not the expected one
  '10109', // sealed
  '10118', // offline
];
/** The text of 10077, which has other causes, too. */
const IS_FULL = /^maximum (messages|bytes)/;
/** By JetStream's number of the error; of others, {@link byStatus}. */
const OF_JETSTREAM: FailureTable = failureTable(
  [OF_DESTINATION, OF_THE_STREAM],
  [FINAL, ['10054', '10097']], // larger than the stream's max_msg_size; headers above 64 KiB
  [OF_DESTINATION, ['10002', '10023', '10028', '10047']], // limits of account and server, which may be of one kind of storage
  [CAUSE.suspicious, ['10158']], // the same id is being stored at this moment
  [CAUSE.transport, ['10039', '10076']], // no JetStream
);

/** The name of an error of the client or of Node, or the beginning of what the server said before it closed. */
const OF_CONNECTIONS: FailureTable = failureTable(
  ...NODE_ROWS,
  [CAUSE.suspicious, ['ProtocolError', 'ClosedConnection']],
  [
    CAUSE.transport,
    [
      'Slow Consumer',
      'Stale Connection',
      'Server Shutdown',
      'maximum connections exceeded',
      'maximum account active connections exceeded',
      'Connection Throttling',
    ],
  ],
);

/** Whose fault it is. Pure. */
export function judge(error: unknown): Verdict {
  if (error instanceof NatsPublishError) return judgeMessage(error);
  if (error instanceof OutboxError) return CAUSE.transport;
  const names = namesOf(error);
  const cause = names.map((name) => rowOf(OF_CONNECTIONS, name)).find((row) => row !== undefined) ?? CAUSE.transport;
  const why = names[0] ?? 'closed';
  return {
    ...cause,
    error: new OutboxError('TRANSPORT_UNAVAILABLE', `The connection to NATS was lost or refused (${why}).`, {
      cause: error,
    }),
  };
}

function judgeMessage({ trouble: { reason, subject, problem = '', errorCode, status } }: NatsPublishError): Verdict {
  const of = subject === undefined ? {} : { destination: subjectName(subject) };
  switch (reason) {
    case 'no-stream':
    case 'denied':
      return { ...OF_DESTINATION, ...of, certain: true };
    case 'no-subject':
      return CAUSE.message;
    case 'refused': {
      const cause = OF_JETSTREAM.get(String(errorCode)) ?? byStatus(status);
      const certain = OF_THE_STREAM.includes(String(errorCode)) || IS_FULL.test(problem);
      return cause.suspect === 'destination' ? { ...cause, ...of, certain } : cause;
    }
    default:
      return FINAL;
  }
}

/** A stream that cannot store now (5xx, 429), or a request that it does not like. */
function byStatus(status = 500): FailureCause {
  return status >= 500 || status === 429 ? OF_DESTINATION : CAUSE.either;
}

/** What the server said, then codes, then names of classes; of the innermost first. */
function namesOf(error: unknown): string[] {
  const chain = (chainOf(error) as { code?: unknown; name?: unknown; message?: unknown }[]).reverse();
  const said = chain
    .filter(({ name }) => name === 'ProtocolError')
    .map(({ message }) => String(message).replaceAll("'", ''));
  const codes = chain.flatMap(({ code }) => (typeof code === 'string' ? [code] : []));
  return [
    ...said,
    ...codes,
    ...chain.flatMap(({ name }) => (typeof name === 'string' && name !== 'Error' ? [name] : [])),
  ];
}
