import type { OutboxMessage, RabbitMqMessageOptions } from '../../message.js';
import { OutboxMessageError } from '../../outbox.errors.js';
import { createEnvelope, type Headers } from './envelope.js';
import { RoutingKeyError } from './rabbitmq-blame.js';
import type { RabbitMqSettings } from './rabbitmq-options.js';

/** What amqplib's `publish` takes. */
export interface RabbitMqPublish {
  readonly exchange: string;
  readonly routingKey: string;
  readonly content: Buffer;
  readonly properties: object;
}
/** Throws when AMQP cannot carry the message. */
export type RabbitMqEncoder = (message: OutboxMessage) => RabbitMqPublish;

/** Headers that only AMQP needs, which has no place for either. */
export const KEY_HEADER = 'key';
export const TOMBSTONE_HEADER = 'tombstone';

/** amqplib's scratch buffer is 64 KiB; up to 0.10.9 a larger table was cut off silently and closed the connection. */
export const MAX_HEADER_TABLE = 60 * 1024;
const EMPTY = Buffer.alloc(0);

export function createEncoder(settings: RabbitMqSettings): RabbitMqEncoder {
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
    if (own !== undefined) checkOptions(own);
    const headers = envelope(message);
    if (message.key !== null && settings.cloudEvents === undefined) headers[KEY_HEADER] = message.key;
    if (message.body === null) headers[TOMBSTONE_HEADER] = 'true';
    if (mayHoldBytes || message.headersJson !== null) checkHeaders(headers);
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

function keyFrom(routingKey: (message: OutboxMessage) => string, message: OutboxMessage): string {
  try {
    return routingKey(message);
  } catch (cause) {
    throw new RoutingKeyError('routingKey() failed', { cause });
  }
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

/** What the broker would close the channel for, at the cost of the neighbours. */
function checkOptions({ priority, expiration }: RabbitMqMessageOptions): void {
  if (priority !== undefined && !isIntegerUpTo(priority, 255)) refuse('priority must be an integer from 0 to 255');
  if (expiration !== undefined && !isIntegerUpTo(expiration, 2 ** 32 - 1))
    refuse('expiration must be whole milliseconds below 2^32');
}

/** Makes bytes Buffers, which is all that amqplib knows, and refuses what its buffer cannot hold. */
function checkHeaders(headers: Headers): void {
  let size = 0;
  for (const name of Object.keys(headers)) {
    const value = headers[name]!;
    const nameBytes = Buffer.byteLength(name);
    if (nameBytes > 255) refuse('a header name is longer than 255 bytes');
    size += nameBytes + 6;
    if (typeof value === 'string') size += Buffer.byteLength(value);
    else if (Array.isArray(value)) {
      headers[name] = (value as readonly (string | Uint8Array)[]).map(asBuffer);
      for (const one of value as readonly (string | Uint8Array)[]) size += 5 + Buffer.byteLength(one as string);
    } else {
      headers[name] = asBuffer(value as Uint8Array);
      size += (value as Uint8Array).byteLength;
    }
  }
  if (size > MAX_HEADER_TABLE) refuse(`its headers take ${size} bytes, AMQP frames hold ${MAX_HEADER_TABLE}`);
}

function asBuffer<T extends string | Uint8Array>(value: T): string | Buffer {
  if (typeof value === 'string' || Buffer.isBuffer(value)) return value;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
function isIntegerUpTo(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= max;
}
function refuse(what: string): never {
  throw new OutboxMessageError('INVALID_MESSAGE', `RabbitMQ cannot carry the message: ${what}.`);
}
