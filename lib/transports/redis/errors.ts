import { OutboxError } from '../../outbox.errors.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { CAUSE, failureTable, NODE_ROWS, rowOf, type FailureCause } from '../failure.js';
import type { Verdict } from '../session/session.js';

/**
 * What Redis or its client said. ioredis puts the command beside it, which holds payloads, or a password: it stays behind.
 */
export class RedisFailure extends Error {
  /** `true`: an answer to a command; nothing is wrong with the connection. */
  readonly isReply: boolean;
  /** First word of an answer, as `WRONGTYPE`; else the code of Node, or of the lines below. */
  readonly code: string;

  constructor(text: string, code?: string) {
    super(text);
    this.name = 'RedisFailure';
    this.isReply = code === undefined;
    this.code = code ?? text.split(' ', 1)[0]!;
  }
}

/** No code of Redis: the stream is not there, and must not be made. */
export const NO_STREAM = 'NOSTREAM';
/** No code of Redis: fewer replicas than `waitReplicas` asks for have it. */
export const FEW_REPLICAS = 'FEWREPLICAS';
/** The server ended the connection, or ioredis did. */
export const CONNECTION_CLOSED = 'CONNECTION_CLOSED';

/** A server shows how an unknown command went on: with headers, or the password of a login. */
const ARGUMENTS = /, with args beginning with: .*/s;

export function toFailure(error: unknown): RedisFailure {
  if (error instanceof RedisFailure) return error;
  const { name, message = '', code } = Object(error) as { name?: unknown; message?: string; code?: unknown };
  if (name === 'ReplyError') return new RedisFailure(message.replace(ARGUMENTS, ''));
  return new RedisFailure(message, typeof code === 'string' ? code : CONNECTION_CLOSED);
}

/** True of this stream alone. */
const OF_THE_STREAM = { fault: 'transport', suspect: 'destination', isCertain: true } as const;
/** Of this stream, or of all. */
const PERHAPS_OF_THE_STREAM = { fault: 'transport', suspect: 'destination' } as const;
const FINAL = { fault: 'message', final: true } as const;

/** By the beginning of an answer, or the code. What is not here is the transport's fault: OOM, MISCONF, LOADING, NOAUTH, … */
const REDIS_FAILURES = failureTable(
  [
    OF_THE_STREAM,
    [NO_STREAM, 'WRONGTYPE', 'MOVED', 'ERR The stream has exhausted the last possible ID', 'NOPERM of a key'],
  ],
  [PERHAPS_OF_THE_STREAM, ['ASK', 'TRYAGAIN']],
  [FINAL, ['ERR Elements are too large to be stored', 'ERR Protocol error', 'ERR string exceeds maximum allowed size']],
  [CAUSE.suspicious, [CONNECTION_CLOSED]],
  ...NODE_ROWS,
) as ReadonlyMap<string, FailureCause & { readonly isCertain?: true }>;

/** Another connection may lead to a server that takes it: after a failover, to the new master. */
const OF_THE_CONNECTION = new Set(['READONLY', 'LOADING', 'MASTERDOWN', 'NOAUTH', 'UNBLOCKED']);
export const endsConnection = ({ isReply, code }: RedisFailure): boolean => !isReply || OF_THE_CONNECTION.has(code);

/** Redis reads nothing behind it. */
export const isOfProtocol = ({ message }: RedisFailure): boolean => message.startsWith('ERR Protocol error');

/** Pure. @param destination of the message that was refused */
export function judge(error: unknown, message?: OutboxMessage, destination?: string): Verdict {
  if (error instanceof OutboxError) return message === undefined ? CAUSE.transport : FINAL;
  const failure = toFailure(error);
  // Which login may use which key is for an operator to mend, as much as a key of the wrong type.
  const isKey = failure.code === 'NOPERM' && /\bkeys?\b/.test(failure.message);
  const text = isKey ? 'NOPERM of a key' : failure.isReply ? failure.message : failure.code;
  const { isCertain, ...cause } = rowOf(REDIS_FAILURES, text) ?? { ...CAUSE.transport };
  const isOfStream = message !== undefined && cause.suspect === 'destination' && destination !== undefined;
  const verdict = { ...cause, error: said(failure, cause, destination) };
  return isOfStream ? { ...verdict, destination, ...(isCertain === true && { certain: true }) } : verdict;
}

function said(failure: RedisFailure, { fault, suspect }: FailureCause, destination = 'a stream'): OutboxError {
  const what = failure.isReply ? failure.message : `${failure.code}: ${failure.message}`;
  const hint = HINTS[failure.code];
  const details = { cause: failure, ...(hint !== undefined && { hint }) };
  if (fault === 'message' || suspect === 'destination')
    return new OutboxError('PUBLISH_REJECTED', `Redis did not take the message for ${destination} (${what}).`, details);
  return new OutboxError('TRANSPORT_UNAVAILABLE', `Redis did not take the messages (${what}).`, details);
}

const HINTS: Readonly<Record<string, string>> = {
  [NO_STREAM]: 'Create it, for example: XGROUP CREATE <stream> <group> 0 MKSTREAM; or leave createStreams out.',
  [FEW_REPLICAS]: 'The stream of this server has it, and gets it once more with the next try.',
  WRONGTYPE: 'The key holds something else than a stream. Rename it, or give streamPrefix.',
  MOVED: 'It is on another node of a Redis Cluster, and redis() knows one server.',
  OOM: 'Make room: raise maxmemory, or trim streams.',
  READONLY: 'The server is a replica. Point url at the master, or give sentinels.',
  NOPERM:
    'The login needs: ~<stream> +xadd +ping, with waitReplicas +wait, and for the doctor +type +xinfo +info +config|get.',
};
