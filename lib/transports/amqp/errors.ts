import { CAUSE, failureTable, rowOf, type FailureCause, type FailureTable } from '../failure.js';
import { BROKEN_CONNECTION, isNetworkError } from '../network-errors.js';

/** Whose fault it is that the broker, or amqplib, closed a channel or a connection. */
export interface CloseReason {
  /** AMQP's or Node's name: fit for a log, free of payloads. */
  readonly name: string;
  /** When it closed a channel; a confirm channel of ours only ever publishes. */
  readonly channel: FailureCause;
  /** When it closed the connection, or kept it from opening. */
  readonly connection: FailureCause;
}

/** AMQP 0-9-1's reply codes, all of them. A message that kills connections again and again is charged by the relay. */
export const REPLY_CODES: ReadonlyMap<number, CloseReason> = new Map([
  reply(200, 'REPLY_SUCCESS', CAUSE.transport, CAUSE.transport),
  // The body is more than the broker takes. RabbitMQ says 406.
  reply(311, 'CONTENT_TOO_LARGE', CAUSE.message, CAUSE.message),
  reply(312, 'NO_ROUTE', CAUSE.message, CAUSE.message),
  reply(313, 'NO_CONSUMERS', CAUSE.message, CAUSE.message),
  // An operator, a shutdown, a virtual host that was deleted.
  reply(320, 'CONNECTION_FORCED', CAUSE.transport, CAUSE.transport),
  reply(402, 'INVALID_PATH', CAUSE.transport, CAUSE.transport),
  // On a channel: no right to write to this exchange. On a connection: login, expired token.
  reply(403, 'ACCESS_REFUSED', CAUSE.message, CAUSE.transport),
  // On a channel: no such exchange. On a connection: no such virtual host.
  reply(404, 'NOT_FOUND', CAUSE.message, CAUSE.transport),
  // Of exclusive queues; a publish locks nothing.
  reply(405, 'RESOURCE_LOCKED', CAUSE.either, CAUSE.transport),
  // A property that the broker will not have, or more bytes than `max_message_size`.
  reply(406, 'PRECONDITION_FAILED', CAUSE.message, CAUSE.transport),
  // What was sent cannot be read: a frame too large, a field of a wrong type.
  reply(501, 'FRAME_ERROR', CAUSE.message, CAUSE.message),
  reply(502, 'SYNTAX_ERROR', CAUSE.message, CAUSE.message),
  // Frames in an order that this client does not send: its state is broken, or what was in them broke the reader.
  reply(503, 'COMMAND_INVALID', CAUSE.either, CAUSE.either),
  reply(504, 'CHANNEL_ERROR', CAUSE.either, CAUSE.either),
  reply(505, 'UNEXPECTED_FRAME', CAUSE.either, CAUSE.either),
  // The broker is out of something: an outage.
  reply(506, 'RESOURCE_ERROR', CAUSE.transport, CAUSE.transport),
  // The virtual host is gone, or a limit of connections or channels is reached.
  reply(530, 'NOT_ALLOWED', CAUSE.transport, CAUSE.transport),
  // Something between here and the queue lacks a feature; nothing that we send is optional.
  reply(540, 'NOT_IMPLEMENTED', CAUSE.either, CAUSE.either),
  // Whatever crashed in the broker, also over a message.
  reply(541, 'INTERNAL_ERROR', CAUSE.either, CAUSE.either),
]);

/** What amqplib says in words only, by the beginning of the message. */
const AMQPLIB_TEXTS: ReadonlyMap<string, string> = new Map([
  ['Heartbeat timeout', 'HEARTBEAT_TIMEOUT'],
  ['Unexpected close', 'UNEXPECTED_CLOSE'],
  ['Socket closed abruptly', 'HANDSHAKE_CLOSED'],
  ['Expected ConnectionOpenOk', 'VIRTUAL_HOST_REFUSED'], // 402 or 530, which amqplib does not say
  ['Expected', 'HANDSHAKE_UNEXPECTED'],
  ['Frame on channel != 0', 'HANDSHAKE_UNEXPECTED'],
  ["Wasn't expecting", 'HANDSHAKE_UNEXPECTED'],
  ['Handshake terminated', 'HANDSHAKE_CLOSED'],
  ['Frame on unknown channel', 'UNEXPECTED_FRAME'],
  ['Unexpected frame', 'UNEXPECTED_FRAME'],
  ['SASL mechanism', 'SASL_MECHANISM'],
  ['Server frameMax', 'FRAME_MAX'],
  ['Negotiated frameMax', 'FRAME_MAX'],
  ['connect ETIMEDOUT', 'ETIMEDOUT'],
  ['Channel ended', 'CHANNEL_ENDED'],
  ['channel closed', 'CHANNEL_ENDED'],
  ['No channels left', 'NO_CHANNELS_LEFT'],
  ['The connection was closed', 'CLOSED'],
  ['The connection was lost', 'CLOSED'],
  ['The outbox destroyed', 'CLOSED_HERE'],
  ['The transport', 'CLOSED_HERE'],
  ['Not sent before', 'PUBLISH_TIMEOUT'],
]);
/** A connection that was there broke. */
const BREAKS: FailureTable = failureTable([CAUSE.suspicious, ['UNEXPECTED_CLOSE', ...BROKEN_CONNECTION]]);
/** By class: a call on what is closed; the end of an `AbortSignal`; our own deadline. */
const NAMED = new Set([
  'IllegalOperationError',
  'AbortError',
  'TimeoutError',
  'PUBLISH_TIMEOUT',
  'TRANSPORT_UNAVAILABLE',
]);

/** Pure. What no table names is called `UNKNOWN`, and is the transport's fault. */
export function closeReason(error: unknown): CloseReason {
  const { code, name, message } = (error ?? {}) as { code?: unknown; name?: unknown; message?: unknown };
  const text = typeof message === 'string' ? message : '';
  const replyCode = replyCodeOf(error) ?? handshakeCode(text);
  if (replyCode !== undefined) return REPLY_CODES.get(replyCode) ?? named(`unknown code ${replyCode}`);
  if (typeof code === 'string' && (isNetworkError(code) || NAMED.has(code))) return named(code);
  if (typeof name === 'string' && NAMED.has(name)) return named(name);
  return named(rowOf(AMQPLIB_TEXTS, text) ?? 'UNKNOWN');
}

/** The one that a 404 names. Quotes are not escaped there. */
export function missingExchange(error: unknown): string | undefined {
  const { message } = (error ?? {}) as { message?: unknown };
  if (replyCodeOf(error) !== 404 || typeof message !== 'string') return undefined;
  return /no exchange '(.*)' in vhost '/.exec(message)?.[1];
}

/** DOM exceptions, as an AbortSignal gives, have a number too: below 100. */
export function replyCodeOf(error: unknown): number | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'number' && code >= 200 ? code : undefined;
}

/** amqplib has the code of a refused login or virtual host in its text only. */
function handshakeCode(text: string): number | undefined {
  const found = /^Handshake terminated by server: (\d{3})\b/.exec(text);
  return found === null ? undefined : Number(found[1]);
}

function named(name: string): CloseReason {
  const cause = BREAKS.get(name) ?? CAUSE.transport;
  return { name, channel: cause, connection: cause };
}

function reply(code: number, name: string, channel: FailureCause, connection: FailureCause): [number, CloseReason] {
  return [code, { name: `${code} ${name}`, channel, connection }];
}
