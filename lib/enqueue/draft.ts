import type { MessageOptions } from '../outbox-message.js';
import { OutboxKeyMissingError, OutboxMessageError } from '../outbox.errors.js';
import { PLAIN_MESSAGE_NAMES, type MessageSettings, type PlainMessage } from './options.js';
import { refuse, refuseUnknown, threw } from '../options/refuse.js';
import { checkPayload } from '../payloads/check-payload.js';
import type { EventClass, EventMetadata, HeadersInput, StoredRetry } from './events/event-metadata.js';
import type { EventRegistry } from './events/event-registry.js';
import { isPlainObject } from './plain-object.js';
import { MAX_KEY_BYTES, MAX_VERSION, NO_TOPIC, textProblem, typeName } from '../options/text-checks.js';

/** One message before it is encoded: events and plain messages look the same from here on. */
export interface Draft {
  /** `Event 'order.placed'`, for errors. */
  readonly subject: string;
  readonly type: string;
  readonly version: number;
  readonly topic: string;
  readonly key: string | null;
  /** In the order in which they overrule each other. */
  readonly headers: readonly (HeadersInput | undefined)[];
  readonly options: readonly (MessageOptions | undefined)[];
  readonly retry: StoredRetry | undefined;
  readonly transport: string | readonly string[] | undefined;
  readonly contentType: string | undefined;
  readonly payload: unknown;
  /** Of the event's class. Throws. */
  readonly check: ((payload: unknown) => void) | undefined;
  /** What a plain message says about itself; the caller's options come first. */
  readonly own: MessageSettings;
}

const NOTHING: MessageSettings = Object.freeze({});

/** @param where `messages[3]: ` in an array, for errors */
export function draftOf(input: unknown, settings: MessageSettings, registry: EventRegistry, where: string): Draft {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    const hint =
      typeof input === 'function' ? 'Enqueue an instance, not the class.' : 'Enqueue an event or a plain message.';
    throw new OutboxMessageError('INVALID_MESSAGE', `${where}${typeName(input)} is no message.`, { hint });
  }
  if (isPlainObject(input)) return fromPlain(input as object as PlainMessage, settings, where);
  const { constructor } = Object.getPrototypeOf(input) as { constructor: EventClass };
  return fromEvent(input, registry.metadataOf(constructor), settings, where);
}

function fromEvent(event: object, metadata: EventMetadata, settings: MessageSettings, where: string): Draft {
  const { type, key, validate } = metadata;
  const subject = `${where}Event '${type}'`;
  const valueOf = <R>(
    name: 'topic' | 'key' | 'headers' | 'options' | 'payload',
    value: R | ((event: object) => R),
  ): R => {
    if (typeof value !== 'function') return value;
    try {
      return (value as (event: object) => R)(event);
    } catch (error) {
      throw threw('INVALID_MESSAGE', `${subject}: its function \`${name}\` threw.`, error, event);
    }
  };
  return {
    subject,
    type,
    version: metadata.version,
    topic:
      typeof metadata.topic === 'string' ? metadata.topic : checked(subject, 'topic', valueOf('topic', metadata.topic)),
    key:
      'key' in settings ? keyOf(subject, settings.key) : key === undefined ? null : keyOf(subject, valueOf('key', key)),
    headers: [valueOf('headers', metadata.headers), settings.headers],
    options: [valueOf('options', metadata.options), settings.options],
    retry: metadata.retry,
    transport: settings.transport ?? metadata.transports,
    contentType: metadata.contentType,
    payload: metadata.payload === undefined ? event : valueOf('payload', metadata.payload),
    check: validate && ((payload) => checkPayload(validate, event, payload, subject)),
    own: NOTHING,
  };
}

function fromPlain(message: PlainMessage, settings: MessageSettings, where: string): Draft {
  refuseUnknown(message, PLAIN_MESSAGE_NAMES, `${where}Message`);
  const { version = 1, contentType } = message;
  const type = checked(`${where}Message`, 'type', message.type);
  const subject = `${where}Message '${type}'`;
  if (!Number.isInteger(version) || version < 1 || version > MAX_VERSION) {
    refuse(subject, `version must be a whole number from 1 to ${MAX_VERSION}`);
  }
  return {
    subject,
    type,
    version,
    topic: 'topic' in message ? topicOf(subject, message.topic) : type,
    key: 'key' in settings ? keyOf(subject, settings.key) : 'key' in message ? keyOf(subject, message.key) : null,
    headers: [message.headers, settings.headers],
    options: [message.options, settings.options],
    retry: undefined,
    transport: settings.transport ?? message.transport,
    contentType: contentType === undefined ? undefined : checked(subject, 'contentType', contentType),
    payload: message.payload,
    check: undefined,
    own: message,
  };
}

function topicOf(subject: string, topic: unknown): string {
  return topic === undefined ? refuse(subject, `topic ${NO_TOPIC}`) : checked(subject, 'topic', topic);
}

function checked(subject: string, field: string, text: unknown): string {
  const problem = textProblem(field, text);
  if (problem !== undefined) refuse(subject, problem);
  return text as string;
}

function keyOf(subject: string, key: unknown): string | null {
  if (key === null) return null;
  if (key === undefined || key === '') {
    throw new OutboxKeyMissingError(`${subject}: key is ${key === '' ? 'empty' : 'undefined'}.`, {
      hint: 'Save the entity first, or say null for a message without order.',
    });
  }
  const problem = textProblem('key', key, MAX_KEY_BYTES);
  if (problem !== undefined) refuse(subject, problem);
  return key as string;
}
