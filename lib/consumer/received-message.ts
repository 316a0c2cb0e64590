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
  type MessageLabels,
} from './labels.js';

/** A message of an outbox, as a consumer with Nest gets it by `@Received()`. */
export interface ReceivedMessage<Payload = unknown> extends MessageLabels {
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
  if (labels === undefined) return undefined;
  const content = new Content(labels, bodyOf(labels, message as Incoming));
  return Object.assign(content, labels.shown) as object as ReceivedMessage<Payload>;
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
  const packet = labels.shown.headers['content-type'] === undefined ? undefined : parse(message.content);
  return isNestPacket(labels, packet)
    ? { value: packet.data }
    : { bytes: message.content, maxBytes: bounds.get(message.properties) };
}

/** Read when somebody asks for it. */
class Content {
  private read: { readonly payload: unknown } | undefined;

  constructor(
    private readonly labels: Labels,
    private readonly body: Body,
  ) {}

  get bytes(): Buffer | null {
    if (this.body.bytes !== undefined) return this.body.bytes;
    throw this.problem('has no bytes here: Nest decoded them. For a Kafka server set parser: { keepBinary: true }');
  }

  get payload(): unknown {
    this.read ??= { payload: this.body.bytes === undefined ? this.decoded() : this.fromBytes(this.body.bytes) };
    return this.read.payload;
  }

  private fromBytes(given: Buffer | null): unknown {
    if (given === null) return null;
    const { contentType, contentEncoding } = this.labels.shown;
    const bytes = contentEncoding === 'gzip' ? gunzip(given, this.body.maxBytes ?? MAX_BYTES, this.whose) : given;
    if (!this.labels.json) return this.labels.text ? bytes.toString() : bytes;
    const value = parse(bytes);
    if (value === undefined) throw this.problem(`is labelled ${contentType} and is not JSON`);
    return value;
  }

  /** What Nest decoded: text is that of the payload, an object was parsed from it. */ private decoded(): unknown {
    const { value } = this.body;
    if (this.labels.shown.contentEncoding !== null) return this.bytes;
    if (this.labels.text && typeof value === 'string') return value;
    if (!this.labels.json) return this.bytes;
    const parsed = typeof value === 'string' ? parse(Buffer.from(value)) : value;
    return parsed === undefined ? value : parsed;
  }

  private problem(what: string): OutboxMessageError {
    return new OutboxMessageError('INVALID_MESSAGE', `${this.whose} ${what}.`);
  }

  private get whose(): string {
    const { id, type } = this.labels.shown;
    return `The payload of message ${id} (${type})`;
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
