import { isJson, TEXT_TYPE } from '../message/serializer.js';
import { arrivedAsGzip } from '../payloads/gzip.js';
import { STANDARD_HEADERS } from '../transports/envelope.js';
import { KEY_HEADER, TOMBSTONE_HEADER } from '../transports/amqp/names.js';

/** What a message of the outbox says of itself, beside its payload, whichever broker brought it. */
export interface MessageLabels {
  /** The same on every repetition: deduplicate by it. */
  readonly id: string;
  readonly type: string;
  readonly version: number;
  /** Messages of one key arrive in order; `null` without one. */
  readonly key: string | null;
  /** When it was enqueued. */
  readonly time: Date;
  readonly contentType: string;
  /** `gzip`: the bytes are compressed. `null`: they are not, or they are delivered encrypted. */
  readonly contentEncoding: 'gzip' | null;
  /** All headers as the broker's client and Nest give them, the standard ones included. */
  readonly headers: Readonly<Record<string, unknown>>;
}
export interface Labels {
  readonly shown: MessageLabels;
  readonly tombstone: boolean;
  /** JSON in clear: the payload is a value. */
  readonly json: boolean;
  /** Text in clear. */
  readonly text: boolean;
}
/** amqplib's message, as far as it is looked at. */
export interface AmqpMessage {
  readonly content: Buffer;
  readonly properties: AmqpProperties;
}
interface AmqpProperties {
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly messageId?: unknown;
  readonly contentType?: unknown;
}
/** A record as Nest decodes it: key and headers are text, and so is the value without `parser.keepBinary`. */
export interface KafkaRecord {
  readonly topic: string;
  readonly partition: number;
  readonly key?: unknown;
  readonly value: unknown;
  readonly headers: Readonly<Record<string, unknown>>;
}

/** The standard headers, and CloudEvents in AMQP and in Kafka. */
const PREFIXES = ['', 'cloudEvents:', 'ce_'];
const ENCRYPTED = 'encryption-key-id';
/** Properties or a record → what a deserializer was told of how large its payload may be, for whoever reads it later. */
export const bounds = new WeakMap<object, number>();

/** @returns `undefined` when these are not the properties of a message of the outbox */
export function labelsOfAmqp(properties: unknown): Labels | undefined {
  if (!isRecord(properties)) return undefined;
  const { headers, messageId, contentType } = properties as AmqpProperties;
  if (!isRecord(headers)) return undefined;
  const found = standardOf(headers);
  if (found === undefined || found.id !== messageId || typeof contentType !== 'string') return undefined;
  const key = headers[found.prefix === '' ? KEY_HEADER : `${found.prefix}subject`];
  return labels(found, headers, key, contentType, headers[TOMBSTONE_HEADER] === 'true');
}

/** @returns `undefined` when it is not a record of the outbox */
export function labelsOfRecord({ headers, key, value }: KafkaRecord): Labels | undefined {
  const found = standardOf(headers);
  const contentType = headers[STANDARD_HEADERS.contentType];
  if (found === undefined || typeof contentType !== 'string') return undefined;
  return labels(found, headers, key, contentType, value === null);
}

export function isKafkaRecord(value: unknown): value is KafkaRecord {
  return isRecord(value) && typeof value['topic'] === 'string' && 'partition' in value && isRecord(value['headers']);
}

/** Through a ClientRMQ the body is Nest's packet, and the payload its `data`. */
export function isNestPacket(labels: Labels, body: unknown): body is { pattern: unknown; data?: unknown } {
  return labels.shown.headers[STANDARD_HEADERS.contentType] !== undefined && isRecord(body) && 'pattern' in body;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

type Standard = Readonly<Record<'prefix' | 'id' | 'type' | 'time' | 'version', string>>;

function standardOf(headers: Readonly<Record<string, unknown>>): Standard | undefined {
  for (const prefix of PREFIXES) {
    const [id, type, time] = ['id', 'type', 'time'].map((name) => headers[prefix + name]);
    const version = headers[prefix === '' ? STANDARD_HEADERS.version : `${prefix}dataversion`];
    if ([id, type, time, version].every((value) => typeof value === 'string'))
      return { prefix, id, type, time, version } as Standard;
  }
  return undefined;
}

function labels(
  { id, type, time, version }: Standard,
  headers: Readonly<Record<string, unknown>>,
  key: unknown,
  contentType: string,
  tombstone: boolean,
): Labels {
  const clear = headers[ENCRYPTED] === undefined;
  const contentEncoding = clear && !tombstone && arrivedAsGzip(headers) ? 'gzip' : null;
  return {
    shown: {
      ...{ id, type, version: Number(version), time: new Date(time), key: keyText(key) },
      ...{ contentType, contentEncoding, headers },
    },
    tombstone,
    json: clear && isJson(contentType),
    text: clear && TEXT_TYPE.test(contentType),
  };
}

/** Nest makes an object of a record's key that is the text of one, and keeps the bytes of one that begins with a zero. */
function keyText(key: unknown): string | null {
  if (key === undefined || key === null) return null;
  if (typeof key === 'string') return key;
  return Buffer.isBuffer(key) ? key.toString() : JSON.stringify(key);
}
