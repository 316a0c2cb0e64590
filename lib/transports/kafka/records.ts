import type { IHeaders, Message } from 'kafkajs';
import { recordKey } from '../../message/key-bytes.js';
import type { KafkaMessageOptions, OutboxMessage } from '../../outbox-message.js';
import type { Envelope } from '../envelope.js';
import { noTopic, refuseReplies } from '../kafkajs/limits.js';

/** A record on its way. */
export interface KafkaRecord extends Message {
  /** Filled in by the partitioner when the message does not fix it. */
  partition?: number;
  /** Set by the partitioner: the partition that the message fixes does not exist. */
  nowhere?: boolean;
}
export interface GivenRecord {
  readonly topic: string;
  readonly record: KafkaRecord;
}
export interface TopicRecords {
  readonly records: KafkaRecord[];
  /** Index in the batch of each record. */
  readonly indexes: number[];
}
/** What goes out in one produce request. */
export interface Chunk {
  readonly topics: Map<string, TopicRecords>;
  size: number;
  bytes: number;
}
export interface RecordSettings {
  readonly envelope: Envelope;
  readonly topicPrefix: string;
  /** Which time a record bears: of the publish, by default, or of the enqueue. */
  readonly timestamp?: 'published' | 'enqueued' | undefined;
  /** Bytes of one record batch at most; a single record may be larger and is then alone. */
  readonly maxBytes: number;
  /** Bytes of the headers that are the same on every message. */
  readonly fixedHeaderBytes: number;
  /** What is sent in place of a record of ours. */
  readonly given?: ((message: OutboxMessage) => GivenRecord | undefined) | undefined;
}

/** Lengths, offsets and attributes of a record, and the lengths and names of the standard headers, rounded up. */
const RECORD_OVERHEAD = 220;
/** No partition is equal to it: the key's later messages of this batch are not sent. */
const BLOCKED = NaN;

/**
 * Cuts a batch into requests whose record batches the broker accepts whichever partitions they hit: it checks the size
 * of a record batch, not of a record, and a request has one record batch per partition. Order within a key is the
 * order of the batch, within and across chunks; a chunk is made when the one before it has its result.
 */
export class RecordPlan {
  /** Indexes that must wait for an earlier message of their key; grows with each chunk. */
  readonly skipped: number[] = [];
  /** What no record can be made of, as topic, headers or options are nothing that we wrote; grows with each chunk. */
  readonly unreadable: { readonly index: number; readonly error: unknown }[] = [];
  private position = 0;
  /** by topic and key, the partition that the caller fixed; only filled where it matters */
  private readonly runs = new Map<string, number | undefined>();
  private readonly mayFix: boolean;

  constructor(
    private readonly batch: readonly OutboxMessage[],
    private readonly settings: RecordSettings,
  ) {
    this.mayFix = batch.some(({ optionsJson }) => optionsJson !== null);
  }

  next(): Chunk | undefined {
    const { batch, settings } = this;
    const chunk: Chunk = { topics: new Map(), size: 0, bytes: 0 };
    for (; this.position < batch.length; this.position += 1) {
      const message = batch[this.position]!;
      const given = settings.given?.(message);
      const bytes = given === undefined ? estimate(message, settings) : sizeOf(given.record);
      if (chunk.size > 0 && chunk.bytes + bytes > settings.maxBytes) break;
      try {
        this.put(chunk, message, bytes, given);
      } catch (error) {
        this.unreadable.push({ index: this.position, error });
        this.block(this.position);
      }
    }
    return chunk.size > 0 ? chunk : undefined;
  }

  /** The message was not published: nothing of its key may overtake it. */
  block(index: number): void {
    const message = this.batch[index]!;
    if (message.key !== null) this.runs.set(runOf(message), BLOCKED);
  }

  private put(chunk: Chunk, message: OutboxMessage, bytes: number, given: GivenRecord | undefined): void {
    const { topicPrefix } = this.settings;
    const options = message.optionsJson === null ? undefined : message.options.kafka;
    const topic = given?.topic ?? topicPrefix + message.topic;
    if (topic === '') throw noTopic();
    if (given !== undefined) return add(chunk, topic, given.record, this.position, bytes);
    if (this.waits(message, options?.partition)) this.skipped.push(this.position);
    else add(chunk, topic, toRecord(message, options, this.settings), this.position, bytes);
  }

  /** A run is all or nothing because it lands in one record batch: only while it goes to one partition. */
  private waits(message: OutboxMessage, partition: number | undefined): boolean {
    if (message.key === null || (!this.mayFix && this.runs.size === 0)) return false;
    const run = runOf(message);
    if (!this.runs.has(run)) this.runs.set(run, partition);
    if (this.runs.get(run) === partition) return false;
    this.runs.set(run, BLOCKED);
    return true;
  }
}

const runOf = ({ topic, key }: OutboxMessage): string => `${topic}\0${key}`;

export function toRecord(
  message: OutboxMessage,
  options: KafkaMessageOptions | undefined,
  { envelope, timestamp }: Pick<RecordSettings, 'envelope' | 'timestamp'>,
): KafkaRecord {
  refuseReplies(message);
  // By its time a topic keeps, removes or refuses a record: what waited in an outage must not arrive expired.
  const time = timestamp === 'enqueued' ? message.createdAt.getTime() : Date.now();
  const record: KafkaRecord = {
    key: recordKey(message.key),
    value: message.body,
    headers: envelope(message) as IHeaders,
    timestamp: String(options?.timestamp ?? time),
  };
  if (options?.partition !== undefined) record.partition = options.partition;
  return record;
}

function add(chunk: Chunk, topic: string, record: KafkaRecord, index: number, bytes: number): void {
  let entry = chunk.topics.get(topic);
  if (entry === undefined) chunk.topics.set(topic, (entry = { records: [], indexes: [] }));
  entry.records.push(record);
  entry.indexes.push(index);
  chunk.size += 1;
  chunk.bytes += bytes;
}

/** Takes these topics out of a chunk; `undefined` when it has none of them. */
export function takeOut(chunk: Chunk, isMeant: (topic: string) => boolean): Chunk | undefined {
  let taken: Chunk | undefined;
  for (const [topic, records] of chunk.topics) {
    if (!isMeant(topic)) continue;
    taken ??= { topics: new Map(), size: 0, bytes: chunk.bytes };
    taken.topics.set(topic, records);
    taken.size += records.indexes.length;
    chunk.topics.delete(topic);
    chunk.size -= records.indexes.length;
  }
  return taken;
}

function estimate(message: OutboxMessage, settings: RecordSettings): number {
  const { key, headersJson, type, contentType } = message;
  return (
    RECORD_OVERHEAD +
    settings.fixedHeaderBytes +
    message.size +
    3 * (type.length + contentType.length) +
    (key === null ? 0 : 6 * key.length) +
    (headersJson === null ? 0 : Buffer.byteLength(headersJson))
  );
}

function sizeOf({ key, value, headers = {} }: KafkaRecord): number {
  let bytes = RECORD_OVERHEAD + Buffer.byteLength(key ?? '') + Buffer.byteLength(value ?? '');
  for (const [name, one] of Object.entries(headers))
    for (const each of [one].flat()) bytes += Buffer.byteLength(name) + Buffer.byteLength(each ?? '') + 8;
  return bytes;
}
