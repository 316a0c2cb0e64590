import { OutboxMessageError } from './outbox.errors.js';
import { decodeHeaders, type HeaderValue, type MessageHeaders } from './message/headers.js';

export type { HeaderValue, MessageHeaders };

/**
 * What travels from the caller's transaction to the broker.
 *
 *   enqueue ──▶ ready ──▶ published (deleted or archived)
 *      │          │ ▲ never back
 *      │          ▼
 *      └────▶  parked: scheduled ─▶ waiting ⇄ sending ─▶ published
 *                      blocked ─▶ sending      └──▶ dead
 */

/** Milliseconds, or a number with a unit: `500`, `'30s'`, `'7d'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

/** Where a message of the ready table stands, within its transport. `seq` stays a string: it may pass 2^53. */
export interface Place {
  readonly bucket: number;
  readonly seq: string;
}

export type ParkedState = 'scheduled' | 'waiting' | 'blocked' | 'dead';

/**
 * Broker-specific settings of one message, by kind of transport. They are stored with the message and ignored by
 * transports of another kind.
 */
export interface MessageOptions {
  readonly kafka?: KafkaMessageOptions;
  readonly rabbitmq?: RabbitMqMessageOptions;
  /** Free for custom transports; must survive JSON. */
  readonly [kind: string]: unknown;
}
export interface KafkaMessageOptions {
  /** Sets the partition, which must exist. Default: the partitioner's choice by key. */
  readonly partition?: number;
  /** Sets the timestamp of the record, in milliseconds since the epoch. Default: by the transport's `timestamp`. */
  readonly timestamp?: number;
}
export interface RabbitMqMessageOptions {
  /** Names the exchange. Like `routingKey` it is refused with a ClientRMQ, which has one destination. Default: the transport's exchange. */
  readonly exchange?: string;
  /** Sets the routing key. Default: the message's topic. */
  readonly routingKey?: string;
  /** Sets the priority in a priority queue, 0–255. */
  readonly priority?: number;
  /** Sets the time to live of the message, in milliseconds. */
  readonly expiration?: number;
  /** Sets the AMQP property `type`. Default: the message's type. */
  readonly type?: string;
  /** Sets the AMQP property `correlationId`. */
  readonly correlationId?: string;
  /** Sets the AMQP property `replyTo`. */
  readonly replyTo?: string;
}

/** A message fully resolved and checked, ready to be inserted: what `to-message` makes and the store writes. */
export interface NewMessage {
  /** UUIDv7, lower case. */
  readonly id: string;
  readonly transport: number;
  readonly bucket: number;
  readonly topic: string;
  /** `null`: unordered. */
  readonly key: string | null;
  readonly type: string;
  readonly version: number;
  readonly contentType: string;
  /** JSON text of the headers (`decodeHeaders`), `null` for none. */
  readonly headers: string | null;
  /** JSON text of {@link MessageOptions}, `null` for none. */
  readonly options: string | null;
  /** `null` is a tombstone. */
  readonly payload: Uint8Array | null;
  /** Not before this many milliseconds from the database's now. */
  readonly delay: number | null;
  /** Not before this instant. At most one of `delay` and `deliverAt`. */
  readonly deliverAt: Date | null;
  /** Written to the dedup table in the same transaction when set. */
  readonly dedupKey: string | null;
}

export const isScheduled = ({ delay, deliverAt }: NewMessage): boolean => delay !== null || deliverAt !== null;

/** The columns of a stored message, in the order in which every read returns them. */
export interface StoredMessage {
  readonly bucket: number;
  readonly seq: string;
  readonly id: string;
  readonly topic: string;
  readonly key: string | null;
  readonly type: string;
  readonly version: number;
  readonly contentType: string;
  readonly headersJson: string | null;
  readonly optionsJson: string | null;
  /** `null` is a tombstone, or a large payload that is still in the database: see `unread`. */
  readonly body: string | Buffer | null;
  /** Bytes of a large payload that the read left where it is; absent or 0: `body` is all there is. */
  readonly unread?: number;
  /** A column is longer than anybody may write (`ROW_LIMITS`), and the read left it in the database. */
  readonly tooLarge?: boolean;
  /** Microseconds or milliseconds of the enqueue as the database prints it in UTC, `YYYY-MM-DD hh:mm:ss[.ffffff][+00]`. */
  readonly createdText: string;
  /** Failures charged to the message so far. */
  readonly attempts: number;
  /** Key of its row in the parked table; `null` while it is in the ready table. */
  readonly parkedId: string | null;
  /** The lowest `seq` of a key decides; a scheduled message on MySQL has none of its own. */
  readonly parkedState: ParkedState | null;
  /** What the transport left at its last failure; only parked rows can have one. */
  readonly progress?: string | null;
}

/** Where a message stands in the memory of a relay: see `Ledger`. */
export type MemoryState = 'idle' | 'waiting' | 'out' | 'leaseLost' | 'dead';

/** One message on its way out, as transports and `@OnOutboxEvent` handlers see it. */
export class OutboxMessage {
  /** UUIDv7; the same on every redelivery. */
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly topic: string;
  readonly key: string | null;
  readonly contentType: string;
  /** Failures charged to this message so far; 0 on the first try. */
  readonly attempts: number;
  /** What the transport left at the last failure of this message (`PublishFailure.progress`). */
  readonly progress: string | null;
  /** @internal */ readonly bucket: number;
  /** @internal */ readonly seq: string;
  /** @internal */ readonly parkedId: string | null;
  /** @internal */ readonly parkedState: ParkedState | null;
  /** @internal */ readonly headersJson: string | null;
  /** @internal */ readonly optionsJson: string | null;
  /** @internal text as the database delivered it, or bytes; transports that take both avoid a copy */
  body: string | Buffer | null;
  /** @internal bytes of a large payload that stays in the database until the message's turn comes (see `large-payloads`) */
  unread: number;
  /** @internal */ readonly tooLarge: boolean;
  /** @internal */ readonly createdText: string;

  /** @internal the next message of the same key while both wait for their turn (see `key-queues`) */
  behind: OutboxMessage | undefined;
  /** @internal where it stands in memory (see `ledger`) */
  state: MemoryState;
  /** @internal number of the batch in which it was handed over last; 0: none */
  batch: number;

  constructor(row: StoredMessage) {
    this.behind = undefined;
    this.state = 'idle';
    this.batch = 0;
    this.id = row.id;
    this.type = row.type;
    this.version = row.version;
    this.topic = row.topic;
    this.key = row.key;
    this.contentType = row.contentType;
    this.attempts = row.attempts;
    this.progress = row.progress ?? null;
    this.bucket = row.bucket;
    this.seq = row.seq;
    this.parkedId = row.parkedId;
    this.parkedState = row.parkedState;
    this.headersJson = row.headersJson;
    this.optionsJson = row.optionsJson;
    this.body = row.body;
    this.unread = row.unread ?? 0;
    this.tooLarge = row.tooLarge ?? false;
    this.createdText = row.createdText;
  }

  /** The bytes that were enqueued, unchanged; `null` is a tombstone. */
  get payload(): Buffer | null {
    return typeof this.body === 'string' ? Buffer.from(this.body, 'utf8') : this.body;
  }
  /** The caller's headers, without the ones a transport adds. */
  get headers(): MessageHeaders {
    return this.headersJson === null ? NO_HEADERS : decodeHeaders(this.headersJson);
  }
  /** Id of the key with which `payload` is encrypted, as it is in the tables and in dead letters; `null`: it is in clear. */
  get encryptionKeyId(): string | null {
    if (!isEncrypted(this)) return null;
    const { keyId } = Object(this.options[ENCRYPTION_OPTION]) as { keyId?: unknown };
    return typeof keyId === 'string' ? keyId : null;
  }
  get options(): MessageOptions {
    return this.optionsJson === null ? NO_OPTIONS : parseOptions(this.optionsJson);
  }
  /** Time of the enqueue by the database's clock. */
  get createdAt(): Date {
    return new Date(`${this.createdText.slice(0, 10)}T${this.createdText.slice(11, 23).replace(/[+Z].*$/, '')}Z`);
  }
  /** Payload bytes without copying the payload. */
  get size(): number {
    return this.body === null ? this.unread : Buffer.byteLength(this.body as string);
  }
}

/** Among a message's options; names with `$` belong to the outbox. */
export const ENCRYPTION_OPTION = '$encryption';

/** By its options. Nearly all messages have none, and few of those that have can be: JSON may write a name with escapes. */
export function isEncrypted({ optionsJson }: Pick<StoredMessage, 'optionsJson'>): boolean {
  if (optionsJson === null || !(optionsJson.includes(ENCRYPTION_OPTION) || optionsJson.includes('\\u'))) return false;
  try {
    return Object.hasOwn(Object(JSON.parse(optionsJson)) as object, ENCRYPTION_OPTION);
  } catch {
    return false; // a foreign writer's text that is no JSON
  }
}

function parseOptions(json: string): MessageOptions {
  try {
    return JSON.parse(json) as MessageOptions;
  } catch {
    throw new OutboxMessageError('INVALID_MESSAGE', 'The options in the table are not JSON.');
  }
}

const NO_HEADERS: MessageHeaders = Object.freeze(Object.create(null) as MessageHeaders);
const NO_OPTIONS: MessageOptions = Object.freeze({});

/** Order of two sequence numbers given as decimal strings. */
export function compareSeq(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}

export const lowerSeq = (a: string, b: string): string => (compareSeq(a, b) <= 0 ? a : b);
