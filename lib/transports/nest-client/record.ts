import { isUtf8 } from 'node:buffer';
import { recordKey } from '../../message/key-bytes.js';
import type { HeaderValue, OutboxMessage } from '../../outbox-message.js';
import { OutboxMessageError } from '../../outbox.errors.js';
import { refusePromise } from './serializer.js';
import { createEnvelope, type Headers } from '../envelope.js';
import { refuseReplies } from '../kafkajs/limits.js';
import { placeProblem } from './rmq-limits.js';
import { KEY_HEADER, TOMBSTONE_HEADER } from '../amqp/names.js';

/** How a message becomes the `data` of `client.emit(pattern, data)`. */
export type RecordOption = 'auto' | 'kafka' | 'rmq' | 'plain' | ((message: OutboxMessage) => unknown);

const JSON_TYPE = /^[^;]*[/+]json\s*(;|$)/i;
const TEXT_TYPE = /^text\//i;

/** JSON is parsed back, because Nest wraps `data` in a JSON packet of its own; text stays text, the rest, and ciphertext, bytes. */
export function parsedPayload(message: OutboxMessage): unknown {
  const { body, contentType } = message;
  if (body === null) return null;
  // Delivered as it is stored: the label is that of the payload in clear.
  if (message.encryptionKeyId !== null) return message.payload;
  // Not what a decoder would make of bytes that are no UTF-8, whatever their label says.
  const text = typeof body === 'string' ? body : isUtf8(body) ? body.toString('utf8') : undefined;
  if (JSON_TYPE.test(contentType)) return parse(text);
  return TEXT_TYPE.test(contentType) ? (text ?? body) : message.payload;
}

function parse(text: string | undefined): unknown {
  try {
    return JSON.parse(text as string);
  } catch {
    // The parser's own error quotes the payload.
    throw new OutboxMessageError('PAYLOAD_NOT_SERIALIZABLE', 'The payload is labelled JSON and is not JSON.');
  }
}

/**
 * A Kafka record: bytes as they were enqueued. Always with `key` and `value`: Nest takes an object that has neither for
 * the value itself, and an event that has one of them for a record.
 */
export function kafkaRecord(message: OutboxMessage): object {
  const { partition, timestamp } = message.options.kafka ?? {};
  refuseReplies(message);
  return {
    key: recordKey(message.key),
    value: message.body,
    headers: headersOf(message),
    // That of the publish: by it a topic removes or refuses a record.
    timestamp: String(timestamp ?? Date.now()),
    ...(partition !== undefined && { partition }),
  };
}

/** Properties of an AMQP message as amqplib's `publish` takes them; those that the outbox looks at. */
interface RmqOptions {
  readonly persistent?: boolean;
  readonly messageId?: string;
  readonly [name: string]: unknown;
}

/**
 * What every message of the outbox travels as through ClientRMQ, whatever `record` makes of it. Nest's serializer knows its
 * own `RmqRecord` by class; this one is unwrapped by {@link unwrapRmqRecords}.
 */
export class OutboxRmqRecord {
  constructor(
    /** By which a return is matched. Once it is sent: what it was sent with. */
    public messageId: string,
    readonly data: unknown,
    /** Instead of those that `data` or the serializer has. */
    readonly options?: RmqOptions,
  ) {}

  /** The outbox asks for returns, which is what its receipt is worth; an id and `persistent` that are there stay. */
  optionsOver(own: RmqOptions = {}): RmqOptions {
    this.messageId = own.messageId ?? this.messageId;
    return { ...own, persistent: own.persistent ?? true, mandatory: true, messageId: this.messageId };
  }
}

export function rmqRecord(message: OutboxMessage): OutboxRmqRecord {
  const { priority, expiration, type, correlationId, replyTo } = message.options.rabbitmq ?? {};
  return new OutboxRmqRecord(message.id, parsedPayload(message), {
    type: type ?? message.type,
    timestamp: Math.floor(message.createdAt.getTime() / 1000),
    // The body is Nest's packet, which is JSON whatever the payload is.
    contentType: 'application/json',
    headers: rmqHeaders(message),
    ...(priority !== undefined && { priority }),
    ...(expiration !== undefined && { expiration: String(expiration) }),
    ...(correlationId !== undefined && { correlationId }),
    ...(replyTo !== undefined && { replyTo }),
  });
}

/** Of rows that nobody checked, and of a client that is named by its token. */
export function placed(record: (message: OutboxMessage, time: number) => unknown): typeof record {
  return (message, time) => {
    const problem = message.optionsJson === null ? undefined : placeProblem(message.options.rabbitmq);
    if (problem === undefined) return record(message, time);
    throw new OutboxMessageError('INVALID_MESSAGE', `The message cannot be sent: options.rabbitmq.${problem}.`);
  };
}

interface Packet {
  data?: unknown;
}
interface PacketSerializer {
  serialize(packet: unknown, options?: unknown): unknown;
}

/** Puts the record's options where ClientRMQ looks for them, around the serializer that the client has, once. */
export function unwrapRmqRecords(client: { serializer?: PacketSerializer }): void {
  const inner = client.serializer;
  if (inner === undefined || UNWRAPPING.has(inner)) return;
  const outer: PacketSerializer = {
    serialize(packet, options) {
      const record = (packet as Packet | undefined)?.data;
      if (!(record instanceof OutboxRmqRecord)) return inner.serialize(packet, options);
      const serialized = inner.serialize({ ...(packet as Packet), data: record.data }, options);
      refusePromise(serialized);
      const own = record.options ?? (serialized as { options?: RmqOptions } | null)?.options;
      // Not a copy, which would have no `toJSON`; Nest takes the options off again.
      return Object.assign(Object(serialized) as object, { options: record.optionsOver(own) });
    },
  };
  UNWRAPPING.add(outer);
  client.serializer = outer;
}
const UNWRAPPING = new WeakSet<PacketSerializer>();

const envelope = createEnvelope();

/** The two that AMQP has no place for, as the rabbitmq() transport sends them. */
function rmqHeaders(message: OutboxMessage): Headers {
  const headers = headersOf(message);
  if (message.key !== null) headers[KEY_HEADER] = message.key;
  if (message.body === null) headers[TOMBSTONE_HEADER] = 'true';
  return headers;
}

function headersOf(message: OutboxMessage): Headers {
  const headers = envelope(message);
  for (const name of Object.keys(headers)) headers[name] = bytesAsBuffer(headers[name]!);
  return headers;
}

/** Clients tell bytes from objects by `Buffer`. */
function bytesAsBuffer(value: HeaderValue): HeaderValue {
  if (typeof value === 'string' || Buffer.isBuffer(value)) return value;
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value.map((one) => bytesAsBuffer(one) as string | Buffer);
}
