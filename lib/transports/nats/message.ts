import type { OutboxMessage } from '../../outbox-message.js';
import { createEnvelope, type Headers } from '../envelope.js';
import type { NatsHeaders } from './client.js';
import { notEncodable } from './errors.js';
import { headersProblem, lineProblem, subjectProblem, valuesOf } from './limits.js';
import type { NatsSettings } from './options.js';

export interface NatsPublish {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: NatsHeaders;
  /** As the server counts them: headers and payload. */
  readonly bytes: number;
}
/** Throws {@link NatsPublishError} when NATS cannot carry the message: rows of other programs were checked by nobody. */
export type NatsEncoder = (message: OutboxMessage) => NatsPublish;

const EMPTY = new Uint8Array(0);

export function createEncoder({ headers: fixed, stream, deduplicate, subjectPrefix }: NatsSettings): NatsEncoder {
  const envelope = createEnvelope({ headers: fixed });
  const expected = stream === undefined ? '' : `Nats-Expected-Stream: ${stream}\r\n`;
  return (message) => {
    const subject = subjectPrefix + message.topic;
    refuseIf(subjectProblem(subject));
    if (message.headersJson !== null) refuseIf(headersProblem(message.headers));
    const headers = envelope(message);
    if (message.key !== null) headers['key'] = message.key;
    if (message.body === null) headers['tombstone'] = 'true';
    const id = deduplicate ? `Nats-Msg-Id: ${message.id}\r\n` : '';
    const block = Buffer.from(`NATS/1.0\r\n${id}${expected}${linesOf(headers)}\r\n`);
    const payload = message.payload ?? EMPTY;
    return { subject, payload, headers: { encode: () => block }, bytes: block.length + payload.length };
  };
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
  if (problem !== undefined) throw notEncodable(problem);
}
