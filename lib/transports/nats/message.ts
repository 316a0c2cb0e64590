import { isThenable } from '../../message/is-thenable.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { createEnvelope, type Headers } from '../envelope.js';
import type { NatsHeaders } from './client.js';
import { failed } from './errors.js';
import { headersProblem, lineProblem, subjectProblem, valuesOf } from './limits.js';
import type { NatsSettings } from './options.js';

export interface NatsPublish {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: NatsHeaders;
  /** As the server counts them: headers and payload. */
  readonly bytes: number;
}
/** Throws {@link NatsPublishError} when NATS cannot carry the message. */
export type NatsEncoder = (message: OutboxMessage) => NatsPublish;

const EMPTY = new Uint8Array(0);

export function createEncoder(
  settings: Pick<NatsSettings, 'headers' | 'stream' | 'deduplicate' | 'subject' | 'subjectPrefix'>,
): NatsEncoder {
  const envelope = createEnvelope({ headers: settings.headers });
  const expected = settings.stream === undefined ? '' : `Nats-Expected-Stream: ${settings.stream}\r\n`;
  return (message) => {
    const subject = subjectOf(message, settings);
    const headers = envelope(message);
    if (message.key !== null) headers['key'] = message.key;
    if (message.body === null) headers['tombstone'] = 'true';
    // Rows of other programs were checked by nobody.
    if (message.headersJson !== null) refuseIf(headersProblem(message.headers));
    const id = settings.deduplicate ? `Nats-Msg-Id: ${message.id}\r\n` : '';
    const block = Buffer.from(`NATS/1.0\r\n${id}${expected}${linesOf(headers)}\r\n`);
    const payload = message.payload ?? EMPTY;
    return { subject, payload, headers: { encode: () => block }, bytes: block.length + payload.length };
  };
}

/** Throws {@link NatsPublishError}. */
export function subjectOf(
  message: OutboxMessage,
  { subject, subjectPrefix }: Pick<NatsSettings, 'subject' | 'subjectPrefix'>,
): string {
  const given = subject === undefined ? subjectPrefix + message.topic : fromFunction(subject, message);
  const problem = subjectProblem(given);
  if (problem !== undefined)
    throw failed({ reason: subject === undefined ? 'not-encodable' : 'no-subject', problem: `the topic ${problem}` });
  return given;
}

function fromFunction(subject: (message: OutboxMessage) => unknown, message: OutboxMessage): string {
  let given: unknown;
  try {
    given = subject(message);
  } catch (cause) {
    throw failed({ reason: 'no-subject', problem: 'subject() failed', cause });
  }
  if (typeof given === 'string') return given;
  if (isThenable(given)) given.then(undefined, () => undefined);
  throw failed({
    reason: 'no-subject',
    problem: `subject() gave ${isThenable(given) ? 'a promise' : typeof given}; must be a string`,
  });
}

function linesOf(headers: Headers): string {
  let lines = '';
  for (const name of Object.keys(headers))
    for (const value of valuesOf(headers[name]!)) {
      const problem = lineProblem(value);
      if (problem !== undefined) refuseIf(`the header ${name} ${problem}`);
      lines += `${name}: ${value as string}\r\n`;
    }
  return lines;
}

function refuseIf(problem: string | undefined): void {
  if (problem !== undefined) throw failed({ reason: 'not-encodable', problem });
}
