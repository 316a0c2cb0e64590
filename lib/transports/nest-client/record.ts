import { isUtf8 } from 'node:buffer';
import { isJson, TEXT_TYPE } from '../../message/serializer.js';
import type { OutboxMessage, RabbitMqMessageOptions } from '../../outbox-message.js';
import { OutboxMessageError } from '../../outbox.errors.js';
import { createEnvelope, type Headers } from '../envelope.js';
import { toRecord, type KafkaRecord } from '../kafka/records.js';
import { createEncoder } from '../rabbitmq/message.js';

/** How a message becomes the `data` of `client.emit(pattern, data)`. */
export type RecordOption = 'auto' | 'kafka' | 'rmq' | 'plain' | ((message: OutboxMessage) => unknown);

/** JSON is parsed back, because Nest wraps `data` in a JSON packet of its own; text stays text, the rest, and ciphertext, bytes. */
export function parsedPayload(message: OutboxMessage): unknown {
  const { body, contentType } = message;
  if (body === null) return null;
  // Delivered as it is stored: the label is that of the payload in clear.
  if (message.encryptionKeyId !== null) return message.payload;
  // Not what a decoder would make of bytes that are no UTF-8, whatever their label says.
  const text = typeof body === 'string' ? body : isUtf8(body) ? body.toString('utf8') : undefined;
  if (isJson(contentType)) return parse(text);
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

const envelope = createEnvelope();

/** As kafka() sends it. With `key` and `value` Nest takes an event that has one of them for a payload, and this for the record. */
export function kafkaRecord(message: OutboxMessage): KafkaRecord {
  return toRecord(message, message.options.kafka, { envelope });
}

/** Properties of an AMQP message as amqplib's `publish` takes them; those that the outbox looks at. */
export interface RmqProperties {
  readonly persistent?: boolean;
  readonly messageId?: string;
  readonly headers?: object;
  readonly [name: string]: unknown;
}

/** `data` with its properties, as Nest's own `RmqRecord`, which a serializer knows by class. */
export class RmqMessage {
  constructor(
    readonly data: unknown,
    readonly properties: RmqProperties,
  ) {}
}

const encode = createEncoder({ exchange: '', mandatory: true, persistent: true });

/** As rabbitmq() sends it, but for the body, which is Nest's packet: JSON, whatever the payload is. */
export function rmqRecord(message: OutboxMessage): RmqMessage {
  const data = parsedPayload(message);
  const { headers, ...properties } = encode(message).properties as { readonly headers: Headers };
  headers['content-type'] = message.contentType;
  return new RmqMessage(data, { ...properties, headers, contentType: 'application/json' });
}

/** A ClientRMQ sends everything to its own queue, or to its own exchange by the pattern, and would be confirmed there. */
export function placeProblem(options: RabbitMqMessageOptions | undefined): string | undefined {
  const name = (['exchange', 'routingKey'] as const).find((one) => options?.[one] !== undefined);
  return name && `${name} has no effect with ClientRMQ, which sends to a queue or exchange of its own`;
}

/** Of rows that nobody checked, and of a client that is named by its token. */
export function placed<Record>(record: (message: OutboxMessage) => Record): typeof record {
  return (message) => {
    const problem = message.optionsJson === null ? undefined : placeProblem(message.options.rabbitmq);
    if (problem === undefined) return record(message);
    throw new OutboxMessageError('INVALID_MESSAGE', `The message cannot be sent: options.rabbitmq.${problem}.`);
  };
}
