import { isThenable } from '../../message/is-thenable.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxMessageError } from '../../outbox.errors.js';
import { createEnvelope, type Headers } from '../envelope.js';
import { RoutingKeyError } from '../amqp/blame.js';
import {
  isShortText,
  MAX_HEADER_TABLE,
  namesProblem,
  optionsProblem,
  tableProblem,
  tableSize,
} from '../amqp/limits.js';
import { KEY_HEADER, TOMBSTONE_HEADER } from '../amqp/names.js';
import type { RabbitMqEncoder } from './client.js';
import type { RabbitMqSettings } from './options.js';

type EncoderSettings = Pick<
  RabbitMqSettings,
  'exchange' | 'routingKey' | 'mandatory' | 'persistent' | 'appId' | 'headers' | 'cloudEvents'
>;

const EMPTY = Buffer.alloc(0);

/** @param maxTable bytes of a header table that the connection carries */
export function createEncoder(
  settings: EncoderSettings,
  maxTable: () => number = () => MAX_HEADER_TABLE,
): RabbitMqEncoder {
  const { exchange, routingKey, mandatory, persistent, appId } = settings;
  const envelope = createEnvelope({
    headers: settings.headers,
    cloudEvents: settings.cloudEvents,
    cloudEventsPrefix: 'cloudEvents:',
    omitContentType: true,
  });
  const mayHoldBytes = settings.headers !== undefined;
  return (message) => {
    const own = message.optionsJson === null ? undefined : message.options.rabbitmq;
    if (own !== undefined) refuseIf(optionsProblem(own));
    const headers = envelope(message);
    if (message.key !== null && settings.cloudEvents === undefined) headers[KEY_HEADER] = message.key;
    if (message.body === null) headers[TOMBSTONE_HEADER] = 'true';
    if (mayHoldBytes || message.headersJson !== null) checkHeaders(headers, maxTable());
    return {
      exchange: own?.exchange ?? exchange,
      routingKey: own?.routingKey ?? (routingKey === undefined ? message.topic : keyFrom(routingKey, message)),
      content: message.payload ?? EMPTY,
      properties: {
        mandatory,
        persistent,
        headers,
        messageId: message.id,
        type: own?.type ?? message.type,
        contentType: message.contentType,
        timestamp: secondsOf(message),
        appId,
        priority: own?.priority,
        expiration: own?.expiration,
        correlationId: own?.correlationId,
        replyTo: own?.replyTo,
      },
    };
  };
}

function keyFrom(routingKey: (message: OutboxMessage) => unknown, message: OutboxMessage): string {
  let key: unknown;
  try {
    key = routingKey(message);
  } catch (cause) {
    throw new RoutingKeyError('routingKey() failed', { cause });
  }
  // amqplib makes '' of undefined, which fanout exchanges and bindings to # take: it would be confirmed.
  if (isShortText(key)) return key;
  if (isThenable(key)) key.then(undefined, () => undefined);
  const given = typeof key === 'string' ? 'more than 255 bytes' : isThenable(key) ? 'a promise' : typeof key;
  throw new RoutingKeyError(`routingKey() gave ${given}; must be a string of at most 255 bytes`);
}

/** Messages come in order of time, so that most share their second with the one before. */
let lastText = '';
let lastSeconds = 0;
function secondsOf(message: OutboxMessage): number {
  const text = message.createdText.slice(0, 19);
  if (text !== lastText) {
    lastSeconds = Math.floor(message.createdAt.getTime() / 1000);
    lastText = text;
  }
  return lastSeconds;
}

/** Rows of other programs were checked by nobody. Makes bytes Buffers, which is all that amqplib knows. */
function checkHeaders(headers: Headers, maxTable: number): void {
  refuseIf(namesProblem(headers) ?? tableProblem(tableSize(headers), maxTable));
  for (const name of Object.keys(headers)) {
    const value = headers[name]!;
    if (Array.isArray(value)) headers[name] = (value as readonly (string | Uint8Array)[]).map(asBuffer);
    else if (typeof value !== 'string') headers[name] = asBuffer(value as Uint8Array);
  }
}

function asBuffer<T extends string | Uint8Array>(value: T): string | Buffer {
  if (typeof value === 'string' || Buffer.isBuffer(value)) return value;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
function refuseIf(problem: string | undefined): void {
  if (problem === undefined) return;
  throw new OutboxMessageError('INVALID_MESSAGE', `RabbitMQ cannot carry the message: ${problem}.`);
}
