import { OutboxMessageError } from '../outbox.errors.js';
import {
  type AmqpMessage,
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
  /** All headers as the broker's client and Nest give them, the standard ones included. */
  readonly headers: Readonly<Record<string, unknown>>;
  /**
   * The value of a JSON payload, the text of `text/*`, the bytes of anything else and of what is delivered encrypted; `null` for a tombstone.
   * Parsed when it is first read.
   *
   * @throws {@link OutboxMessageError} `INVALID_MESSAGE` when it is labelled JSON and is none, or when Nest did not keep the bytes
   */
  readonly payload: Payload;
  /**
   * The bytes that were enqueued; `null` for a tombstone.
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
  return (
    labels &&
    (new Received(labels, bodyOf(labels, message as AmqpMessage & { readonly value: unknown })) as Received<Payload>)
  );
}

function labelsOf(message: unknown): Labels | undefined {
  if (isKafkaRecord(message)) return labelsOfRecord(message);
  return isRecord(message) ? labelsOfAmqp(message['properties']) : undefined;
}

/** Bytes, or what is left of them: Nest's decoded value of a record, the `data` of a packet. */
interface Body {
  readonly bytes?: Buffer | null;
  readonly value?: unknown;
}

function bodyOf(labels: Labels, message: AmqpMessage & { readonly value: unknown }): Body {
  if (labels.tombstone) return { bytes: null, value: null };
  if (isKafkaRecord(message))
    return Buffer.isBuffer(message.value) ? { bytes: message.value } : { value: message.value };
  const packet = labels.headers['content-type'] === undefined ? undefined : parse(message.content);
  return isNestPacket(labels, packet) ? { value: packet.data } : { bytes: message.content };
}

class Received<Payload> implements ReceivedMessage<Payload> {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly key: string | null;
  readonly time: Date;
  readonly contentType: string;
  readonly headers: Readonly<Record<string, unknown>>;
  private read: { readonly payload: unknown } | undefined;

  constructor(
    private readonly labels: Labels,
    private readonly body: Body,
  ) {
    ({ id: this.id, type: this.type, version: this.version, key: this.key, time: this.time } = labels);
    ({ contentType: this.contentType, headers: this.headers } = labels);
  }

  get bytes(): Buffer | null {
    if (this.body.bytes !== undefined) return this.body.bytes;
    throw this.problem('has no bytes here: Nest decoded them. For a Kafka server set parser: { keepBinary: true }');
  }

  get payload(): Payload {
    this.read ??= { payload: this.body.bytes === undefined ? this.decoded() : this.fromBytes(this.body.bytes) };
    return this.read.payload as Payload;
  }

  private fromBytes(bytes: Buffer | null): unknown {
    if (bytes === null) return null;
    if (!this.labels.json) return this.labels.text ? bytes.toString() : bytes;
    const value = parse(bytes);
    if (value === undefined) throw this.problem(`is labelled ${this.contentType} and is not JSON`);
    return value;
  }

  /** What Nest decoded: text is that of the payload, an object was parsed from it. */ private decoded(): unknown {
    const { value } = this.body;
    if (this.labels.text && typeof value === 'string') return value;
    if (!this.labels.json) return this.bytes;
    const parsed = typeof value === 'string' ? parse(Buffer.from(value)) : value;
    return parsed === undefined ? value : parsed;
  }

  private problem(what: string): OutboxMessageError {
    return new OutboxMessageError('INVALID_MESSAGE', `The payload of message ${this.id} (${this.type}) ${what}.`);
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
