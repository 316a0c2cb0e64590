import type { OutboxMessage } from '../../message.js';
import { OutboxError, OutboxMessageError } from '../../outbox.errors.js';
import {
  OutboxTransport,
  PUBLISHED,
  type Blame,
  type PublishContext,
  type PublishFailure,
  type PublishResult,
  type TransportHealth,
  type TransportLimits,
} from '../transport.js';
import { blameFor, UNSENT, type KafkaBlame } from './kafka-blame.js';
import { Deadline, timedOut } from './kafka-deadline.js';
import type { KafkaProducer } from './kafka-producer.js';
import { RecordPlan, type Chunk, type RecordSettings } from './kafka-records.js';
import { KafkaSlots, type KafkaSlot } from './kafka-slots.js';

export interface KafkaTransportSettings {
  readonly records: RecordSettings;
  readonly limits: TransportLimits;
  /** False with a partitioner that may put one key on several partitions. */
  readonly atomicRuns: boolean;
  readonly producers: number;
  /** `slot`: 0 to `producers` - 1; a slot has one producer at a time. */
  openProducer(slot: number): KafkaProducer;
  /**
   * One transactional id per bucket. Its producer is opened, which ends what every earlier producer of the id has under way,
   * before the first publish of the bucket, and again after each failure: whoever opened last is the one that can append.
   */
  readonly openFenced: ((bucket: number) => KafkaProducer) | undefined;
}
type Results = (PublishResult | undefined)[];

/** Publishes through a few producers with one send at a time each; a batch has its producer to itself. */
export class KafkaTransport extends OutboxTransport {
  override readonly receipt = 'broker';
  override readonly atomicRuns: boolean;
  override readonly limits: TransportLimits;
  /** Whatever the bucket; with fencing only a look whether the broker is there. @internal */
  readonly slots: KafkaSlots;
  /** @internal by bucket, with fencing */
  readonly fenced = new Map<number, KafkaSlots>();
  override readonly perBucket: boolean;
  /** @internal what the last attempt to reach the broker said; an idle connection that Kafka closes says nothing */
  reachable = false;
  /** @internal */ lastFailure: string | undefined;

  constructor(/** @internal */ readonly settings: KafkaTransportSettings) {
    super();
    this.atomicRuns = settings.atomicRuns;
    this.limits = settings.limits;
    this.perBucket = settings.openFenced !== undefined;
    this.slots = new KafkaSlots(this.perBucket ? 1 : settings.producers, (slot) => settings.openProducer(slot));
  }

  override async connect(signal: AbortSignal): Promise<void> {
    for (const slots of this.pools()) slots.open();
    try {
      const connected = await this.inSlot(this.slots, signal, Infinity, (slot, deadline) =>
        this.withProducer(slot, deadline, async () => undefined),
      );
      if (!connected) throw timedOut();
      this.noteReached();
    } catch (error) {
      this.noteFailure(blameFor(error, 0, 0).name);
      throw unavailable(`Kafka is not reachable (${this.lastFailure}).`, error);
    }
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<PublishResult[]> {
    const results: Results = Array.from({ length: batch.length });
    try {
      await this.inSlot(this.slotsFor(batch), context.signal, context.timeout, (slot, deadline) =>
        this.publishOn(slot, batch, results, deadline),
      );
    } catch (error) {
      fillRest(results, failure(UNSENT.unavailable, error));
    }
    return fillRest(results, failure(UNSENT.unavailable, timedOut()));
  }

  override reset(): void {
    this.reachable = false;
    for (const { all } of this.pools())
      for (const { producer } of all) producer?.kill(unavailable('The connection was reset.'));
  }

  /** Waits for what is being published; the relay bounds that by its shutdown timeout, and then calls `reset`. */
  override async close(): Promise<void> {
    const pools = this.pools();
    await Promise.all(pools.map((slots) => slots.close()));
    await Promise.all(pools.flatMap(({ all }) => all.map(retire)));
  }

  override health(): TransportHealth {
    if (this.slots.closed) return { up: false, state: 'closed' };
    if (this.reachable) return { up: true, state: 'connected' };
    const detail = this.lastFailure === undefined ? {} : { detail: `Kafka: ${this.lastFailure}.` };
    return { up: false, state: 'connecting', ...detail };
  }

  /** @internal */ pools(): KafkaSlots[] {
    return [this.slots, ...this.fenced.values()];
  }

  /** @internal */ slotsFor([first]: readonly OutboxMessage[]): KafkaSlots {
    const { openFenced } = this.settings;
    if (openFenced === undefined || first === undefined) return this.slots;
    const { bucket } = first;
    let slots = this.fenced.get(bucket);
    if (slots === undefined) this.fenced.set(bucket, (slots = new KafkaSlots(1, () => openFenced(bucket))));
    return slots;
  }

  /** @internal */ noteReached(): void {
    this.reachable = true;
    this.lastFailure = undefined;
  }
  /** @internal */ noteFailure(name: string): void {
    this.reachable = false;
    this.lastFailure = name;
  }

  /** @internal false when the deadline passed before a slot was free */
  async inSlot(
    slots: KafkaSlots,
    signal: AbortSignal,
    timeout: number,
    work: (slot: KafkaSlot, deadline: Deadline) => Promise<void>,
  ): Promise<boolean> {
    const deadline = new Deadline(signal, timeout);
    try {
      const slot = await slots.take(deadline);
      if (slot === undefined) return false;
      try {
        await work(slot, deadline);
      } finally {
        slots.give(slot);
      }
      return true;
    } finally {
      deadline.dispose();
    }
  }

  /** @internal */
  async publishOn(
    slot: KafkaSlot,
    batch: readonly OutboxMessage[],
    results: Results,
    deadline: Deadline,
  ): Promise<void> {
    const plan = new RecordPlan(batch, this.settings.records);
    for (let chunk = plan.next(); chunk !== undefined; chunk = plan.next()) {
      const goOn = await this.sendChunk(slot, chunk, results, deadline);
      if (!goOn) break;
      for (const { indexes } of chunk.topics.values())
        for (const i of indexes) if (results[i]?.ok !== true) plan.block(i);
    }
    for (const i of plan.skipped) results[i] = SKIPPED;
    for (const { index, error } of plan.unreadable) results[index] = unreadable(error);
  }

  /** @internal Writes the results of one request; false when the rest of the batch need not be tried. */
  async sendChunk(slot: KafkaSlot, chunk: Chunk, results: Results, deadline: Deadline): Promise<boolean> {
    let sender: KafkaProducer | undefined;
    try {
      await this.withProducer(slot, deadline, async (producer) => {
        sender = producer;
        const nowhere = await producer.send(chunk, deadline.left);
        this.noteReached();
        for (const { indexes } of chunk.topics.values()) for (const i of indexes) results[i] = PUBLISHED;
        for (const index of nowhere) results[index] = NO_PARTITION;
        // The partition may have been added since: the next producer asks the broker anew.
        if (nowhere.length > 0) await retire(slot);
      });
      return true;
    } catch (error) {
      return this.chunkFailed(error, sender, chunk, results, deadline) !== 'transport';
    }
  }

  /** @internal What was stored is published; the others share the blame. */
  chunkFailed(
    error: unknown,
    sender: KafkaProducer | undefined,
    chunk: Chunk,
    results: Results,
    deadline: Deadline,
  ): Blame {
    for (const i of sender?.storedDespite(chunk) ?? []) results[i] = PUBLISHED;
    const refused = [...chunk.topics.values()].map(({ indexes }) => indexes.filter((i) => results[i] !== PUBLISHED));
    const count = refused.reduce((sum, indexes) => sum + indexes.length, 0);
    const topics = refused.filter(({ length }) => length > 0).length;
    const verdict = blameFor(error, sender === undefined ? 0 : count, topics, deadline.passed);
    const result = failure(verdict, deadline.passed ? timedOut() : describe(verdict, error));
    for (const i of refused.flat()) results[i] = result;
    if (verdict.blame === 'transport') this.noteFailure(verdict.name);
    return verdict.blame;
  }

  /**
   * @internal The slot's producer, connected, for one send. A producer whose work failed for whatever reason is ended
   * before the failure is told: part of the request may be stored, and its sequence numbers are not to be trusted.
   */
  async withProducer(
    slot: KafkaSlot,
    deadline: Deadline,
    work: (producer: KafkaProducer) => Promise<void>,
  ): Promise<void> {
    const isNew = slot.producer === undefined || slot.producer.dead;
    const producer = isNew ? (slot.producer = slot.open()) : slot.producer!;
    const release = producer.endAt(deadline);
    try {
      if (isNew) await producer.connect();
      if (deadline.passed) throw timedOut();
      await work(producer);
    } catch (error) {
      producer.kill(error);
      slot.producer = undefined;
      throw error;
    } finally {
      release();
    }
  }
}

async function retire(slot: KafkaSlot): Promise<void> {
  const { producer } = slot;
  slot.producer = undefined;
  await producer?.close();
}

const SKIPPED = failure(UNSENT.overtaking, rejected('An earlier message of the same key comes first.'));
const NO_PARTITION = failure(UNSENT.nowhere, rejected('The partition that the message asks for does not exist.'));

function fillRest(results: Results, rest: PublishResult): PublishResult[] {
  for (let i = 0; i < results.length; i += 1) results[i] ??= rest;
  return results as PublishResult[];
}
type Judged = Pick<KafkaBlame, 'blame' | 'final'> & Partial<Pick<KafkaBlame, 'suspect'>>;
function failure({ blame, final, suspect }: Judged, error: unknown): PublishFailure {
  return { ok: false, blame, error, ...(final && { final }), ...(suspect !== undefined && { suspect }) };
}
function describe({ blame, name }: KafkaBlame, cause: unknown): OutboxError {
  if (cause instanceof OutboxError) return cause;
  if (blame === 'transport') return unavailable(`Kafka did not take the messages (${name}).`, cause);
  return rejected(`Kafka refused the ${blame === 'message' ? 'message' : 'request'} (${name}).`, cause);
}
function rejected(text: string, cause?: unknown): OutboxError {
  return new OutboxError('PUBLISH_REJECTED', text, { cause });
}
function unreadable(cause: unknown): PublishFailure {
  if (cause instanceof OutboxMessageError) return failure(UNSENT.unreadable, cause);
  const text = 'No Kafka record can be made of the message: its headers or options cannot be read.';
  return failure(UNSENT.unreadable, rejected(text, cause));
}
function unavailable(text: string, cause?: unknown): OutboxError {
  return new OutboxError('TRANSPORT_UNAVAILABLE', text, { cause });
}
