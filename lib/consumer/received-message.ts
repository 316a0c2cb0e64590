import { OutboxMessageError } from '../outbox.errors.js';
import { gunzip, MAX_BYTES } from '../payloads/gzip.js';
import {
  type AmqpMessage,
  bounds,
  isKafkaRecord,
  isNestPacket,
  isRecord,
  type Labels,
  labelsOfAmqp,
  labelsOfRecord,
} from './labels.js';

/** A message of an outbox, as a consumer with Nest gets it by `@Received()`. */
export interface ReceivedMessage<Payload = unknown> {
  /** The same on every repetition: deduplicate by it. */
  readonly id: string;
  readonly type: string;
  readonly version: number;
  /** Messages of one key arrive in order; `null` without one. */
  readonly key: string | null;
  /** When it was enqueued. */
  readonly time: Date;
  readonly contentType: string;
  /** `gzip`: `bytes` are compressed. `null`: they are not, or they are delivered encrypted. */
  readonly contentEncoding: 'gzip' | null;
  /** All headers as the broker's client and Nest give them, the standard ones included. */
  readonly headers: Readonly<Record<string, unknown>>;
  /**
   * The value of a JSON payload, the text of `text/*`, the bytes of anything else and of what is delivered encrypted; `null` for a tombstone.
   * Decompressed and parsed when it is first read.
   *
   * @throws {@link OutboxMessageError} `INVALID_MESSAGE` when it is labelled JSON or gzip and is none, has more than `maxBytes` of
   * `outboxDeserializer`, or when Nest did not keep the bytes
   */
  readonly payload: Payload;
  /**
   * The bytes as they were sent, compressed if they are; `null` for a tombstone.
   *
   * @throws {@link OutboxMessageError} `INVALID_MESSAGE` when there are none: in Kafka without `parser: { keepBinary: true }`, and behind a ClientRMQ
   */
  readonly bytes: Buffer | null;
}

/** What `RmqContext` and `KafkaContext` of `@nestjs/microservices` have in common. */
export interface BrokerContext {
  getMessage(): unknown;
}

/** @returns the outbox's message behind the context of a handler; `undefined` when no outbox sent it, or the transport is another one */
export function receivedMessage<Payload = unknown>(context: BrokerContext): ReceivedMessage<Payload> | undefined {
  const message = context.getMessage?.();
  const labels = labelsOf(message);
  return labels && new Received<Payload>(labels, bodyOf(labels, message as Incoming));
}

function labelsOf(message: unknown): Labels | undefined {
  if (isKafkaRecord(message)) return labelsOfRecord(message);
  return isRecord(message) ? labelsOfAmqp(message['properties']) : undefined;
}

type Incoming = AmqpMessage & { readonly value: unknown };
/** Bytes, or what is left of them: Nest's decoded value of a record, the `data` of a packet. */
interface Body {
  readonly bytes?: Buffer | null;
  readonly value?: unknown;
  /** To which it may be decompressed. */
  readonly maxBytes?: number | undefined;
}

function bodyOf(labels: Labels, message: Incoming): Body {
  if (labels.tombstone) return { bytes: null, value: null };
  if (isKafkaRecord(message))
    return Buffer.isBuffer(message.value)
      ? { bytes: message.value, maxBytes: bounds.get(message) }
      : { value: message.value };
  const packet = labels.headers['content-type'] === undefined ? undefined : parse(message.content);
  return isNestPacket(labels, packet) ? { value: packet.data } : { bytes: message.content, maxBytes: bounds.get(message.properties) };
}

class Received<Payload> implements ReceivedMessage<Payload> {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly key: string | null;
  readonly time: Date;
  readonly contentType: string;
  readonly contentEncoding: 'gzip' | null;
  readonly headers: Readonly<Record<string, unknown>>;
  private read: { readonly payload: unknown } | undefined;

  constructor(
    private readonly labels: Labels,
    private readonly body: Body,
  ) {
    ({ id: this.id, type: this.type, version: this.version, key: this.key, time: this.time } = labels);
    ({ contentType: this.contentType, contentEncoding: this.contentEncoding, headers: this.headers } = labels);
  }

  get bytes(): Buffer | null {
    if (this.body.bytes !== undefined) return this.body.bytes;
    throw this.problem('has no bytes here: Nest decoded them. For a Kafka server set parser: { keepBinary: true }');
  }

  get payload(): Payload {
    this.read ??= { payload: this.body.bytes === undefined ? this.decoded() : this.fromBytes(this.body.bytes) };
    return this.read.payload as Payload;
  }

  private fromBytes(given: Buffer | null): unknown {
    if (given === null) return null;
    const bytes = this.contentEncoding === 'gzip' ? gunzip(given, this.body.maxBytes ?? MAX_BYTES, this.whose) : given;
    if (!this.labels.json) return this.labels.text ? bytes.toString() : bytes;
    const value = parse(bytes);
    if (value === undefined) throw this.problem(`is labelled ${this.contentType} and is not JSON`);
    return value;
  }

  /** What Nest decoded: text is that of the payload, an object was parsed from it. */ private decoded(): unknown {
    const { value } = this.body;
    if (this.contentEncoding !== null) return this.bytes;
    if (this.labels.text && typeof value === 'string') return value;
    if (!this.labels.json) return this.bytes;
    const parsed = typeof value === 'string' ? parse(Buffer.from(value)) : value;
    return parsed === undefined ? value : parsed;
  }

  private problem(what: string): OutboxMessageError {
    return new OutboxMessageError('INVALID_MESSAGE', `${this.whose} ${what}.`);
  }

  private get whose(): string {
    return `The payload of message ${this.id} (${this.type})`;
  }
}

/** @returns `undefined` for what is no JSON, which no JSON is the text of */
function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString()) as unknown;
  } catch {
    return undefined;
  }
}
