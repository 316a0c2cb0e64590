import { receivedMessage, type BrokerContext } from '../consumer/received-message.js';
import { KEY_HEADER } from '../transports/amqp/names.js';
import { parseUuidV7 } from '../message/uuid-v7.js';
import { refuse } from '../options/refuse.js';
import { encodingProblem, typeName } from '../options/text-checks.js';
import { MOST } from './tables.js';

/**
 * What a consumer has of a message: its id as text; what `@Received()` gives, or `receivedMessage`; the `RmqContext` or `KafkaContext` of
 * Nest; the second argument of an `@OnOutboxEvent` handler; a message of amqplib, a record of kafkajs or the argument of its `eachMessage`.
 */
export type InboxMessage = string | object;

export interface Identity {
  readonly id: string;
  readonly key: string | null;
}

/** @throws OutboxMessageError `INVALID_MESSAGE` */
export function identityOf(message: unknown): Identity {
  const found = typeof message === 'string' ? { id: message, key: null } : findIdentity(message);
  if (found === undefined)
    return refused(`${typeName(message)} has no id of a message`, 'Give the id as text, or what @Received() gives.');
  const { id } = found;
  if (id === '' || id.length > MOST.id || id !== id.trim() || !isKept(id))
    return refused(`the id has ${id.length} characters`, `1 to ${MOST.id} are kept, with no blanks around them.`);
  return found;
}

/** @returns `undefined` for what is no message: a payload with an `id` of its own is none */
export function findIdentity(message: unknown): Identity | undefined {
  if (typeof message !== 'object' || message === null) return undefined;
  const given = message as Partial<Record<string, unknown>> & Partial<BrokerContext>;
  if (typeof given.getMessage === 'function')
    return findIdentity(receivedMessage(message as BrokerContext)) ?? ofRaw(given.getMessage());
  if (isText(given['id']) && isText(given['type']) && isText(given['contentType']))
    return { id: given['id'], key: (given['key'] as string | null | undefined) ?? null };
  return ofRaw(given['message'] ?? message);
}

/** Of an argument of a handler: whether it is what brought the payload, and nothing that a payload can be, parsed or transformed. */
export function isMessage(arg: unknown): arg is object {
  if (findIdentity(arg) === undefined) return false;
  const given = arg as Partial<Record<string, unknown>>;
  if (typeof given['getMessage'] === 'function' || 'encryptionKeyId' in given) return true; // a context, or an OutboxMessage
  if (given['time'] instanceof Date && typeof given['version'] === 'number' && isRecord(given['headers'])) return true;
  const { content, value, headers } = Object(given['message'] ?? arg) as Partial<Record<string, unknown>>;
  return [content, value, ...Object.values(Object(headers) as object)].some((one) => Buffer.isBuffer(one));
}

/** Of a broker's client. */
function ofRaw(raw: unknown): Identity | undefined {
  const { properties, headers, key } = Object(raw) as Record<'properties' | 'headers' | 'key', unknown>;
  if (isRecord(properties)) {
    const labels = isRecord(properties['headers']) ? properties['headers'] : {};
    const id = properties['messageId'] ?? idAmong(labels);
    return isText(id) ? { id, key: textOf(labels[KEY_HEADER] ?? labels['cloudEvents:subject']) } : undefined;
  }
  const id = isRecord(headers) ? idAmong(headers) : undefined;
  return id === undefined ? undefined : { id, key: textOf(key) };
}

function idAmong(headers: Readonly<Record<string, unknown>>): string | undefined {
  return textOf(headers['id'] ?? headers['ce_id'] ?? headers['cloudEvents:id']) ?? undefined;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;
const textOf = (value: unknown): string | null =>
  isText(value) ? value : Buffer.isBuffer(value) ? value.toString() : null;

/** As it is in a database. */
const isKept = (text: string): boolean => encodingProblem('', text) === undefined;
/** Digits of the column. */
const MOST_DIGITS = 39;

/** What is compared with what was seen of the key: the caller's own sequence, or `true` for the time at which the message was enqueued. */
export function placeOf({ id, key }: Identity, latest: unknown): { key: string; place: string } {
  if (key === null || key === '') return refused('latest is for messages that have a key', `Message ${id} has none.`);
  if (Buffer.byteLength(key) > MOST.key * 4 || !isKept(key))
    return refused('latest is not for such a key', `It may have ${MOST.key} characters of Unicode.`);
  const isSequence =
    typeof latest === 'bigint' || Number.isSafeInteger(latest) || (isText(latest) && /^\d+$/.test(latest));
  if (latest !== true && !isSequence)
    return refused(`latest is ${typeName(latest)}`, 'Give true, or a sequence: a whole number, a bigint, or digits.');
  // The others do not say when they were made.
  if (latest === true && parseUuidV7(id) === undefined)
    return refused('latest: true needs an id that is a UUID of version 7', 'Give a sequence.');
  const place = BigInt(
    latest === true ? `0x${id.replaceAll('-', '')}` : (latest as bigint | number | string),
  ).toString();
  if (place.replace('-', '').length > MOST_DIGITS)
    return refused('latest is too large', `It may have ${MOST_DIGITS} digits.`);
  return { key, place };
}

const refused = (problem: string, hint: string): never => refuse('inbox.once', problem, 'INVALID_MESSAGE', hint);
