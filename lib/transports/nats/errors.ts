import { OutboxError } from '../../outbox.errors.js';
import { chainOf } from '../chain-of.js';
import { CAUSE, failureTable, NODE_ROWS, rowOf, type FailureCause, type FailureTable } from '../failure.js';
import type { Verdict } from '../session/session.js';

/**
 * What keeps a message from its stream: no stream has the subject, or none that has a leader now; the stream is `full`; JetStream
 * `refused` it for another reason, which has a number; the login was `denied` the right; NATS cannot carry it.
 */
export type NatsReason = 'no-stream' | 'full' | 'refused' | 'denied' | 'not-encodable';

/** What a failed publish says; `reason` and `errorCode` are for `retry.classify`. */
export class NatsPublishError extends OutboxError {
  readonly reason: NatsReason;
  /** JetStream's number of the error, such as 10077. */
  readonly errorCode: number | undefined;

  constructor(reason: NatsReason, message: string, errorCode?: number) {
    super('PUBLISH_REJECTED', message);
    this.reason = reason;
    this.errorCode = errorCode;
  }
}

export const noStream = (subject: string): NatsPublishError =>
  new NatsPublishError(
    'no-stream',
    `No stream takes the subject "${subject}", or the stream has no leader. Create one: nats stream add --subjects '${subject}'.`,
  );
export const denied = (subject: string): NatsPublishError =>
  new NatsPublishError('denied', `The login may not publish to "${subject}".`);
export const notEncodable = (problem: string): NatsPublishError =>
  new NatsPublishError('not-encodable', `NATS cannot carry the message: ${problem}.`);
/** 10077 has other causes, too. */
export const refused = (subject: string, errorCode: number, text: string): NatsPublishError =>
  new NatsPublishError(
    /^maximum (messages|bytes)/.test(text) ? 'full' : 'refused',
    `JetStream refused the message to "${subject}" (${errorCode}: ${text}).`,
    errorCode,
  );

/** A replica that has not stored it yet, or a stream that kept nothing of it. */
export const inDoubt = (subject: string): NatsPublishError =>
  new NatsPublishError('refused', `The stream of "${subject}" knows the message id, and has no message of it.`);

export const subjectName = (subject: string): string => `subject "${subject}"`;

const FINAL: FailureCause = { fault: 'message', final: true };
const OF_DESTINATION: FailureCause = { fault: 'transport', suspect: 'destination' };
/** Until somebody changes the stream: it is not the expected one, sealed, or offline. Nothing else is concerned. */
const OF_THE_STREAM = [10060, 10109, 10118].map(String);
/** By JetStream's number. What has no row may be of the stream, of the account or of the cluster, and passes. */
const OF_JETSTREAM: FailureTable = failureTable(
  [OF_DESTINATION, OF_THE_STREAM],
  [FINAL, ['10054', '10097']], // larger than the stream's max_msg_size; headers above 64 KiB
  [CAUSE.transport, ['10039', '10076']], // no JetStream
);

/** The beginning of what the server said before it closed, a code of Node, or a class of the client. */
const OF_CONNECTIONS: FailureTable = failureTable(
  ...NODE_ROWS,
  [CAUSE.suspicious, ['ProtocolError', 'ServerClosed']],
  [CAUSE.transport, ['Slow Consumer', 'Stale Connection', 'Server Shutdown']],
);

/** Whose fault it is. Pure. @param destination where the message goes */
export function judge(error: unknown, destination: string | undefined): Verdict {
  if (error instanceof NatsPublishError) return judgeMessage(error, destination);
  if (error instanceof OutboxError) return CAUSE.transport;
  const names = namesOf(error);
  const cause = names.map((name) => rowOf(OF_CONNECTIONS, name)).find((row) => row !== undefined);
  const text = `The connection to NATS was lost or refused (${names[0] ?? 'unknown'}).`;
  return { ...(cause ?? CAUSE.transport), error: new OutboxError('TRANSPORT_UNAVAILABLE', text, { cause: error }) };
}

function judgeMessage({ reason, errorCode }: NatsPublishError, destination: string | undefined): Verdict {
  if (reason === 'not-encodable') return FINAL;
  const cause = reason === 'refused' ? (OF_JETSTREAM.get(String(errorCode)) ?? OF_DESTINATION) : OF_DESTINATION;
  if (destination === undefined || cause.suspect !== 'destination') return cause;
  return { ...cause, destination, certain: reason !== 'refused' || OF_THE_STREAM.includes(String(errorCode)) };
}

/** What the server said, then codes, then classes; of the innermost first. */
function namesOf(error: unknown): string[] {
  const chain = (chainOf(error) as { code?: unknown; name?: unknown; message?: unknown }[]).reverse();
  const said = chain.filter(({ name }) => name === 'ProtocolError').map(({ message }) => message);
  const names = [...said, ...chain.map(({ code }) => code), ...chain.map(({ name }) => name)];
  return names.filter((name): name is string => typeof name === 'string' && name !== 'Error');
}
