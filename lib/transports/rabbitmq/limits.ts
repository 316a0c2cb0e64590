import type { HeaderValue, MessageHeaders, RabbitMqMessageOptions } from '../../outbox-message.js';
import type { CheckedMessage, TransportLimits } from '../transport.js';
import { unknownOption } from '../../options/option-names.js';
import type { RabbitMqSettings, RabbitMqUrl } from './options.js';

/** An AMQP short string: routing keys, names, and every property that is text. */
const SHORT = 255;
/** amqplib's scratch buffer is 64 KiB; up to 0.10.9 a larger table was cut off silently and closed the connection. */
export const MAX_HEADER_TABLE = 60 * 1024;
/** What the frame of a message's header holds beside the table: six short strings and a few numbers. */
const PROPERTIES = 6 * (SHORT + 1) + 64;
/** What the outbox adds to the table: `id`, `type`, `version`, `time`, `key` and `tombstone`, with a type and a key of 255 bytes. */
const STANDARD = 2 * SHORT + 160;
/** Bytes. amqplib 2's own default, asked for by name because older releases ask for as little as 4096. */
export const FRAME_MAX = 131_072;

/** What this package writes, whatever the caller says; and what a consumer with amqplib loses. */
const STANDARD_NAMES = ['id', 'type', 'version', 'time', 'key', 'tombstone', '__proto__'];
/**
 * `CC` and `BCC` make RabbitMQ deliver copies to the queues that they name, and it cuts `BCC` off; of `x-death` it
 * expects tables, which no header of ours is, when it dead-letters.
 */
const RESERVED = new Set(['CC', 'BCC', 'x-death']);

export function rabbitMqLimits(settings: RabbitMqSettings): TransportLimits {
  const { routingKey, maxPayloadBytes, cloudEvents } = settings;
  const table = tableLimit(
    Math.min(...settings.servers.map((server) => (typeof server === 'function' ? FRAME_MAX : frameMaxOf(server)))),
  );
  const fixed =
    tableSize(settings.headers ?? {}) + Buffer.byteLength(cloudEvents?.source ?? '') + (cloudEvents ? 120 : 0);
  const standard = cloudEvents === undefined ? STANDARD_NAMES : ['tombstone', '__proto__'];
  return {
    // What routingKey() makes of the topic is checked when it is published.
    ...(routingKey === undefined ? { topicBytes: SHORT } : {}),
    payloadBytes: maxPayloadBytes,
    headerBytes: Math.min(32 * 1024, table),
    tombstones: true,
    check: ({ type, contentType, headers, options }: CheckedMessage) =>
      optionsProblem(options.rabbitmq) ??
      unknownOption('options.rabbitmq', options.rabbitmq, OPTIONS) ??
      shortProblem('type', options.rabbitmq?.type ?? type) ??
      shortProblem('contentType', contentType) ??
      namesProblem(headers, standard) ??
      (cloudEvents === undefined ? undefined : prefixProblem(headers)) ??
      tableProblem(tableSize(headers) + fixed + standardSize(type), table),
  };
}

/**
 * ClientRMQ: the payload travels inside Nest's packet, the rest as with rabbitmq(), but for the place.
 *
 * @param readsOptions whether functions of the application see the message, and may do something with the place
 */
export function rmqClientLimits(readsOptions = false): TransportLimits {
  const standard = [...STANDARD_NAMES, 'content-type'];
  return {
    check: ({ type, contentType, headers, options }: CheckedMessage) =>
      optionsProblem(options.rabbitmq) ??
      unknownOption('options.rabbitmq', options.rabbitmq, OPTIONS) ??
      shortProblem('type', options.rabbitmq?.type ?? type) ??
      (readsOptions ? undefined : placeProblem(options.rabbitmq)) ??
      namesProblem(headers, standard) ??
      tableProblem(tableSize(headers) + standardSize(type) + Buffer.byteLength(contentType), MAX_HEADER_TABLE),
  };
}

/** Of the connection that is there; `0` is no limit. */
export function tableLimit(frameMax: number): number {
  return frameMax === 0 ? MAX_HEADER_TABLE : Math.min(MAX_HEADER_TABLE, frameMax - PROPERTIES);
}

/** As it is encoded: lengths and type marks included. */
export function tableSize(headers: MessageHeaders): number {
  let size = 0;
  for (const name of Object.keys(headers)) {
    const value = headers[name] as HeaderValue;
    size += Buffer.byteLength(name) + 6;
    if (!Array.isArray(value)) size += Buffer.byteLength(value as string);
    else for (const one of value as readonly (string | Uint8Array)[]) size += 5 + Buffer.byteLength(one as string);
  }
  return size;
}

/** A type that `options.rabbitmq.type` stands in for may be longer, and is in the table all the same. */
function standardSize(type: string): number {
  return STANDARD + (type.length * 3 <= SHORT ? 0 : Math.max(0, Buffer.byteLength(type) - SHORT));
}

export function tableProblem(size: number, limit: number): string | undefined {
  return size > limit ? `its headers take ${size} bytes, AMQP frames hold ${limit}` : undefined;
}

/** Names that RabbitMQ or this package gives a meaning. */
export function namesProblem(headers: MessageHeaders, standard: readonly string[] = []): string | undefined {
  for (const name of Object.keys(headers)) {
    if (RESERVED.has(name) || standard.includes(name)) return `the header name ${name} is reserved`;
    if (Buffer.byteLength(name) > SHORT) return `a header name is longer than ${SHORT} bytes`;
  }
  return undefined;
}

function prefixProblem(headers: MessageHeaders): string | undefined {
  return Object.keys(headers).some((name) => name.startsWith('cloudEvents:'))
    ? 'header names with cloudEvents: are reserved'
    : undefined;
}

const TEXTS = ['exchange', 'routingKey', 'type', 'correlationId', 'replyTo'] as const;

/** What amqplib throws over, and what the broker would close the channel for, at the cost of the neighbours. */
export function optionsProblem(options: RabbitMqMessageOptions | undefined): string | undefined {
  if (options === undefined) return undefined;
  // Rows of other programs hold what they like.
  if (typeof options !== 'object' || options === null) return 'options.rabbitmq must be an object';
  const { priority, expiration } = options;
  if (priority !== undefined && !isIntegerUpTo(priority, 255)) return 'priority must be an integer from 0 to 255';
  if (expiration !== undefined && !isIntegerUpTo(expiration, 2 ** 32 - 1))
    return 'expiration must be whole milliseconds below 2^32';
  for (const name of TEXTS) {
    const problem = options[name] === undefined ? undefined : shortProblem(name, options[name]);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const OPTIONS = [...TEXTS, 'priority', 'expiration'];

/** A ClientRMQ sends everything to its own queue, or to its own exchange by the pattern, and would be confirmed there. */
export function placeProblem(options: RabbitMqMessageOptions | undefined): string | undefined {
  const name = (['exchange', 'routingKey'] as const).find((one) => options?.[one] !== undefined);
  return name && `${name} has no effect with ClientRMQ, which sends to a queue or exchange of its own`;
}

function shortProblem(name: string, text: unknown): string | undefined {
  if (typeof text !== 'string') return `${name} must be a string`;
  if (text.length * 3 <= SHORT || Buffer.byteLength(text) <= SHORT) return undefined;
  return `${name} is longer than ${SHORT} bytes`;
}

function isIntegerUpTo(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= max;
}

function frameMaxOf(server: RabbitMqUrl): number {
  const given =
    typeof server === 'string' ? (new URL(server).searchParams.get('frameMax') ?? undefined) : server.frameMax;
  const bytes = given === undefined ? FRAME_MAX : Number(given);
  return bytes > 0 ? bytes : Infinity;
}
