import { isKafkaRecord, isNestPacket, labelsOfAmqp, labelsOfRecord } from './labels.js';

/** What a deserializer of `@nestjs/microservices` makes of an event. */
export interface IncomingPacket {
  readonly pattern: unknown;
  readonly data: unknown;
}
/** A `ConsumerDeserializer` of `@nestjs/microservices`. */
export interface MicroserviceDeserializer {
  deserialize(value: unknown, options?: Record<string, unknown>): IncomingPacket | Promise<IncomingPacket>;
}
export interface OutboxDeserializerOptions {
  /** For messages that no outbox sent. Default: what Nest does without a deserializer. */
  readonly otherwise?: MicroserviceDeserializer | undefined;
}

/**
 * For `options.deserializer` of a Nest microservice that consumes what `rabbitmq()` or `kafka()` publish. Without it a
 * RabbitMQ server of Nest finds no pattern, and drops each message.
 *
 * The pattern is the message's type in RabbitMQ (`@EventPattern('order.placed')`), and the topic in Kafka, by which Nest subscribes.
 * `@Payload()` is the value of a JSON payload, `null` for a tombstone, and `undefined` for another content type in RabbitMQ, where Nest
 * does not keep the bytes: those are in `@Received()`. Messages that no outbox sent go to `otherwise`. It never throws.
 */
export function outboxDeserializer({ otherwise = NEST }: OutboxDeserializerOptions = {}): MicroserviceDeserializer {
  return {
    deserialize: (value, options) =>
      fromRecord(value, options) ?? fromAmqp(value, options) ?? otherwise.deserialize(value, options),
  };
}

/** Of the body Nest gives what it parsed; the second argument has the properties. */
function fromAmqp(value: unknown, properties: unknown): IncomingPacket | undefined {
  const labels = labelsOfAmqp(properties);
  if (labels === undefined || isNestPacket(labels, value)) return undefined;
  const data = labels.tombstone ? null : labels.json ? value : undefined;
  return { pattern: labels.type, data };
}

function fromRecord(record: unknown, options: Record<string, unknown> | undefined): IncomingPacket | undefined {
  const labels = isKafkaRecord(record) ? labelsOfRecord(record) : undefined;
  if (labels === undefined) return undefined;
  const { value } = record as { value: unknown };
  return { pattern: options?.['channel'], data: labels.json ? parsed(value) : value };
}

/** Nest parses objects and arrays only, and nothing with `keepBinary`. */
function parsed(value: unknown): unknown {
  if (typeof value !== 'string' && !Buffer.isBuffer(value)) return value;
  try {
    return JSON.parse(value.toString());
  } catch {
    return value;
  }
}

/** `IncomingRequestDeserializer` and `KafkaRequestDeserializer` of Nest, whose package is an optional peer. */
const NEST: MicroserviceDeserializer = {
  deserialize(value, options) {
    const packet = value as Partial<IncomingPacket> | null | undefined;
    if (packet && (packet.pattern !== undefined || packet.data !== undefined)) return packet as IncomingPacket;
    if (options === undefined) return { pattern: undefined, data: undefined };
    const data = isKafkaRecord(value) ? (value.value ?? value) : value;
    return { pattern: options['channel'], data };
  },
};
