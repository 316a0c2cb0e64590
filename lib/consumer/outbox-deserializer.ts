import { refuseOptions } from '../options/factory-options.js';
import { integer, problemsOf } from '../options/rules.js';
import { gunzipped, MAX_BYTES, MOST_BYTES } from '../payloads/gzip.js';
import { bounds, isKafkaRecord, isNestPacket, type Labels, labelsOfAmqp, labelsOfRecord } from './labels.js';

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
  /** Limits the bytes to which a payload is decompressed, also for `@Received()`. Default: `16,777,216` (1,024–134,217,728). */
  readonly maxBytes?: number | undefined;
}

/**
 * For `options.deserializer` of a Nest microservice that consumes what `rabbitmq()` or `kafka()` publish. Without it a
 * RabbitMQ server of Nest finds no pattern, and drops each message.
 *
 * The pattern is the message's type in RabbitMQ (`@EventPattern('order.placed')`), and the topic in Kafka, by which Nest subscribes.
 * `@Payload()` is the value of a JSON payload, `null` for a tombstone, and `undefined` for another content type, or a compressed
 * payload, in RabbitMQ, where Nest does not keep the bytes: those are in `@Received()`. Messages that no outbox sent go to `otherwise`.
 * What it gives never throws.
 *
 * @throws OutboxConfigurationError `INVALID_OPTIONS`
 */
export function outboxDeserializer(options: OutboxDeserializerOptions = {}): MicroserviceDeserializer {
  const { otherwise = NEST, maxBytes = MAX_BYTES } = options;
  refuseOptions('outboxDeserializer()', problemsOf(integer(1_024, MOST_BYTES), maxBytes, 'maxBytes'));
  return {
    deserialize: (value, about) =>
      fromRecord(value, about, maxBytes) ?? fromAmqp(value, about, maxBytes) ?? otherwise.deserialize(value, about),
  };
}

/** Of the body Nest gives what it parsed; the second argument has the properties. */
function fromAmqp(value: unknown, properties: unknown, maxBytes: number): IncomingPacket | undefined {
  const labels = labelsOfAmqp(properties);
  if (labels === undefined || isNestPacket(labels, value)) return undefined;
  if (isCompressed(labels)) bounds.set(properties as object, maxBytes);
  const data = labels.tombstone ? null : labels.json && !isCompressed(labels) ? value : undefined;
  return { pattern: labels.shown.type, data };
}

function fromRecord(
  record: unknown,
  options: Record<string, unknown> | undefined,
  maxBytes: number,
): IncomingPacket | undefined {
  const labels = isKafkaRecord(record) ? labelsOfRecord(record) : undefined;
  if (labels === undefined) return undefined;
  const { value: given } = record as { value: unknown };
  if (isCompressed(labels)) bounds.set(record as object, maxBytes);
  // Without `keepBinary` Nest has made a text of the bytes.
  const value = isCompressed(labels) ? gunzipped(given, maxBytes) : given;
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

const isCompressed = ({ shown }: Labels): boolean => shown.contentEncoding !== null;
