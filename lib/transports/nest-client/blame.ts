import { types } from 'node:util';
import { OutboxError } from '../../outbox.errors.js';
import type { PublishFailure } from '../transport.js';
import { chainOf } from '../chain-of.js';
import {
  CAUSE,
  classify,
  failed,
  failureTable,
  NODE_ROWS,
  rowOf,
  type FailureCause,
  type FailureRow,
  type FailureTable,
} from '../failure.js';
import type { ClientKind } from './kind.js';
import { blameFor as blameForKafka } from '../kafkajs/blame.js';
import { ENCODING_ERRORS, isNetworkError } from '../network-errors.js';
import { blameFor as blameForRabbitMq } from '../amqp/blame.js';
import { closeReason } from '../amqp/errors.js';

/** Of Nest itself, by class: pattern or payload is null where this client cannot send that. */
const OF_NEST_MESSAGE = ['InvalidMessageException'];
/** Of Nest's clients: what they say of a connection, and what concerns replies, which an event does not have. */
const OF_NEST_TRANSPORT = [
  'Connection closed',
  'Not initialized',
  'No producer initialized',
  'No consumer initialized',
  'NetSocketClosedException',
  'MaxSendBufferSizeExceededException',
  'MaxPacketLengthExceededException',
  'CorruptedPacketLengthException',
  'IncompleteMessageTimeoutException',
  'InvalidJSONFormatException',
  'InvalidTcpDataReceptionException',
  'InvalidKafkaClientTopicException',
  'EmptyResponseException',
  // Of a client without a connection.
  'Cannot read properties of',
];
/** What clients say of a connection that was there and ended. */
const BROKEN = [
  ...['Connection closed', 'Channel closed', 'NetSocketClosedException', 'Connection is closed', 'CONNECTION_CLOSED'],
  ...['DISCONNECT', 'KafkaJSConnectionClosedError', 'Unexpected close'],
];
/** What every client may say. */
const COMMON: readonly FailureRow[] = [
  [CAUSE.transport, OF_NEST_TRANSPORT],
  [CAUSE.suspicious, BROKEN],
];
const ANY = failureTable(...COMMON);
/** Names that count whole, and not as the beginning of a text. */
const WHOLE = failureTable(...NODE_ROWS, [CAUSE.message, OF_NEST_MESSAGE]);

/** The broker refused it, as a full queue with `overflow: reject-publish` does. */
const NACKS = new Map([['message nacked', CAUSE.message]]);

/** What the client below Nest's says, by code, by the first word of a server's reply, or by the beginning of its text. */
const TABLES: Readonly<Record<ClientKind, FailureTable>> = {
  // What kafkajs says has a table of its own.
  kafka: ANY,
  rmq: failureTable(
    [CAUSE.message, NACKS.keys()],
    [CAUSE.transport, ['Not connected', 'timeout', 'amqp-connection-manager', 'cannot reconnect', 'forced']],
    ...COMMON,
  ),
  redis: failureTable(
    [CAUSE.message, ['NOPERM']],
    [
      CAUSE.transport,
      [
        ...['LOADING', 'READONLY', 'MASTERDOWN', 'CLUSTERDOWN', 'MISCONF', 'OOM', 'BUSY', 'NOREPLICAS', 'TRYAGAIN'],
        ...['MOVED', 'ASK', 'NOAUTH', 'WRONGPASS', 'ERR', 'Command timed out'],
        ...['MaxRetriesPerRequestError', 'AbortError', "Stream isn't writeable"],
      ],
    ],
    ...COMMON,
  ),
  nats: failureTable(
    [
      CAUSE.message,
      [
        ...['BAD_SUBJECT', 'BAD_HEADER', 'BAD_PAYLOAD', 'BAD_JSON', 'INVALID_PAYLOAD', 'MAX_PAYLOAD_EXCEEDED'],
        'PERMISSIONS_VIOLATION',
      ],
    ],
    [
      CAUSE.transport,
      [
        ...['CONNECTION_DRAINING', 'CONNECTION_REFUSED', 'CONNECTION_TIMEOUT'],
        ...['TIMEOUT', 'CANCELLED', 'UNKNOWN', 'TLS', 'PROTOCOL_ERROR', 'STALE_CONNECTION', '503'],
        ...['AUTHORIZATION_VIOLATION', 'AUTHENTICATION_EXPIRED', 'AUTHENTICATION_TIMEOUT', 'BAD_AUTHENTICATION'],
        ...['ACCOUNT_EXPIRED', 'BAD_CREDS'],
      ],
    ],
    ...COMMON,
  ),
  // MQTT 5's reason codes of a PUBACK.
  mqtt: failureTable(
    // Not authorized, topic name invalid, packet too large, payload format invalid.
    [CAUSE.message, ['135', '144', '149', '153']],
    // Unspecified, implementation specific, packet identifier in use, quota exceeded.
    [CAUSE.transport, ['128', '131', '145', '151', 'client disconnecting', 'Connection refused', 'Keepalive timeout']],
    ...COMMON,
  ),
  tcp: ANY,
  grpc: ANY,
  custom: ANY,
};

/** Of all of an error's names. */
function causesOf(table: FailureTable, names: readonly string[]): FailureCause[] {
  return names.flatMap((name) => rowOf(table, name) ?? WHOLE.get(name) ?? []);
}

/**
 * Pure.
 *
 * @param open whether the client had a connection: without one no message can be at fault
 * @param recovering whether its broker was away until a moment ago
 */
export function blameForClient(kind: ClientKind, error: unknown, open = true, recovering = false): PublishFailure {
  const names = namesOf(error);
  if (kind === 'kafka' && !names.some((name) => OF_NEST_MESSAGE.includes(name))) {
    const { blame, ...rest } = blameForKafka(error, open ? 1 : 0, 1);
    return failed(blame, wrapped(error), rest);
  }
  if (kind === 'rmq' && open) {
    if (isNack(error)) return blameForRabbitMq({ kind: 'nacked' }, recovering);
    // Not final: what could not be encoded may come from the application's own serializer or record function.
    if (isEncoding(names)) return { ...blameForRabbitMq({ kind: 'not-encodable', error }), final: false };
  }
  const causes = causesOf(TABLES[kind], names);
  const isMessage = open && !isNetwork(names) && causes.some(({ fault }) => fault === 'message');
  const cause = isMessage ? CAUSE.message : (causes.find(({ suspect }) => suspect !== undefined) ?? CAUSE.transport);
  const { blame, ...rest } = classify(cause, 1);
  return failed(blame, wrapped(error), rest);
}

export function isNack(error: unknown): boolean {
  return namesOf(error).some((name) => rowOf(NACKS, name) !== undefined);
}

/**
 * A connection that broke may have broken over what was on it. Under ClientRMQ what amqplib cannot encode is the end of the
 * connection, too, and nothing says which message it was.
 */
export function suspectOf(error: unknown): PublishFailure['suspect'] {
  const names = namesOf(error);
  const isBreak = causesOf(ANY, names).some(({ suspect }) => suspect !== undefined);
  return isBreak || isEncoding(names) ? 'message' : undefined;
}

/** Pure. ClientRMQ's connection ended for this reason under a message, and nothing says which of those on it did that. */
export function blameForLostConnection(reason: unknown): PublishFailure {
  const { connection } = closeReason(reason);
  const isSuspicious =
    connection.fault !== 'transport' || connection.suspect !== undefined || isEncoding(namesOf(reason));
  return failed('transport', wrapped(reason), { suspect: isSuspicious ? 'message' : undefined });
}

/** Whether a table says so, or only the default: for tests. @internal */
export function isNamed(kind: ClientKind, error: unknown): boolean {
  const names = namesOf(error);
  return causesOf(TABLES[kind], names).length > 0 || isNetwork(names);
}

/** Pure. It never reached the client: final, unless the application's own function is what failed. */
export function blameForUnsent(error: unknown): PublishFailure {
  return failed('message', wrapped(error), { final: !(error instanceof ApplicationFunctionError) });
}

/** A function of the application that failed may work after its next deployment, so its failure is not final. */
export class ApplicationFunctionError extends OutboxError {
  constructor(option: 'pattern' | 'record', cause: unknown) {
    super('PUBLISH_REJECTED', `clientProxy(): the ${option} function failed.`, { cause });
  }
}

/** Pure. kafkajs resolves a send to a partition that does not exist, with an empty answer. Not final: it may be added. */
export function blameForKafkaAnswer(answer: unknown): PublishFailure | undefined {
  const acknowledged =
    Array.isArray(answer) && answer.length === 1 && (answer[0] as { errorCode?: number }).errorCode === 0;
  return acknowledged ? undefined : failed('message', new OutboxError('PUBLISH_REJECTED', NO_ANSWER));
}
const NO_ANSWER = 'Kafka answered for no partition: the partition of the message does not exist.';

/** Nest's RMQ and Redis clients reject with strings, amqp-connection-manager with the error and the URL, password and all. */
export function wrapped(error: unknown): Error {
  if (error instanceof Error || types.isNativeError(error)) return error;
  const { err } = Object(error) as { err?: unknown };
  if (types.isNativeError(err)) return err;
  const text = typeof error === 'string' ? error.replace(/^Error: /, '') : 'The client failed without an error.';
  return new OutboxError('TRANSPORT_UNAVAILABLE', text, { cause: error });
}

/** Code, class and text, of the error and of what caused it. */
function namesOf(error: unknown): string[] {
  const names: string[] = [];
  const root = typeof error === 'string' ? { message: error.replace(/^Error: /, '') } : error;
  for (const one of chainOf(root)) {
    const { code, message } = one as { code?: unknown; message?: unknown };
    if (typeof code === 'string' || typeof code === 'number') names.push(String(code));
    const name = one.constructor?.name;
    if (name !== undefined && name !== 'Object' && name !== 'Error') names.push(name);
    if (typeof message === 'string') names.push(message);
    // What rejects with a string has its code there.
    if (typeof error === 'string') names.push(...(error.match(/\b[A-Z][A-Z_]{3,}\b/g) ?? []));
  }
  // A client that lost its connection reads properties of `null`; that is no fault of the message.
  const isLost = names.some((name) => name.startsWith('Cannot read properties of'));
  return isLost ? names.filter((name) => !ENCODING_ERRORS.has(name)) : names;
}

function isEncoding(names: readonly string[]): boolean {
  return !isNetwork(names) && names.some((name) => ENCODING_ERRORS.has(name));
}

function isNetwork(names: readonly string[]): boolean {
  return names.some(isNetworkError);
}
