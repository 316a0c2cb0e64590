import type { HeaderValue, MessageHeaders, RabbitMqMessageOptions } from '../../outbox-message.js';
import { noObject, unknownOption } from '../../options/option-names.js';

/** An AMQP short string: routing keys, names, and every property that is text. */
export const SHORT = 255;
/** amqplib's scratch buffer is 64 KiB; up to 0.10.9 a larger table was cut off silently and closed the connection. */
export const MAX_HEADER_TABLE = 60 * 1024;
/** What the frame of a message's header holds beside the table: six short strings and a few numbers. */
const PROPERTIES = 6 * (SHORT + 1) + 64;
/** What the outbox adds to the table: `id`, `type`, `version`, `time`, `key` and `tombstone`, with a type and a key of 255 bytes. */
const STANDARD = 2 * SHORT + 160;
/** Bytes. amqplib 2's own default, asked for by name because older releases ask for as little as 4096. */
export const FRAME_MAX = 131_072;

/** What this package writes, whatever the caller says; and what a consumer with amqplib loses. */
export const STANDARD_NAMES = ['id', 'type', 'version', 'time', 'key', 'tombstone', '__proto__'];
/**
 * `CC` and `BCC` make RabbitMQ deliver copies to the queues that they name, and it cuts `BCC` off; of `x-death` it
 * expects tables, which no header of ours is, when it dead-letters.
 */
const RESERVED = new Set(['CC', 'BCC', 'x-death']);

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
export function standardSize(type: string): number {
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

/** At the enqueue: names that there are not, too. */
export function enqueuedOptionsProblem(options: RabbitMqMessageOptions | undefined): string | undefined {
  return (
    noObject('options.rabbitmq', options) ??
    optionsProblem(options) ??
    unknownOption('options.rabbitmq', options, OPTIONS)
  );
}

export function shortProblem(name: string, text: unknown): string | undefined {
  if (typeof text !== 'string') return `${name} must be a string`;
  return isShortText(text) ? undefined : `${name} is longer than ${SHORT} bytes`;
}

/** An AMQP short string. */
export function isShortText(text: unknown): text is string {
  return typeof text === 'string' && (text.length * 3 <= SHORT || Buffer.byteLength(text) <= SHORT);
}

function isIntegerUpTo(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= max;
}
