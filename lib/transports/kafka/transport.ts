import type { OutboxMessage } from '../../outbox-message.js';
import type { Finding } from '../diagnosis.js';
import {
  OutboxTransport,
  PUBLISHED,
  type BrokerQuestion,
  type ExpectedMessages,
  type MissingDestination,
  type PublishContext,
  type PublishResult,
  type TransportHealth,
  type TransportLimits,
  type TransportStateListener,
} from '../transport.js';
import { blameFor, describe, failure, isForgotten, unavailable, timedOut } from '../kafkajs/blame.js';
import { Deadline } from '../deadline.js';
import { diagnose } from './diagnose.js';
import { findMissing, type KafkaAsker } from './missing.js';
import type { KafkaProducer, ProducerNews } from './producer.js';
import { RecordPlan, takeOut, type Chunk, type RecordSettings } from './records.js';
import {
  fillRest,
  noPartition,
  NO_TURN,
  SKIPPED,
  THROTTLED,
  unreadable,
  type Results,
  UNKNOWN_REASON,
  UNSENT,
} from './results.js';
import { KafkaSlots, retire, withProducer, type KafkaSlot } from './producer-pool.js';
import { KafkaThrottle } from '../kafkajs/throttle.js';
import { RefusedTopics } from './topics.js';
import { topicName } from '../kafkajs/names.js';

export interface KafkaTransportSettings {
  readonly records: RecordSettings;
  readonly limits: TransportLimits;
  /** False with a partitioner that may put one key on several partitions. */
  readonly atomicRuns: boolean;
  readonly producers: number;
  /** Whether topics may be missing, and are looked for. */
  readonly checkDestinations: boolean;
  /** `slot`: 0 to `producers` - 1; a slot has one producer at a time. */
  openProducer(slot: number, news: ProducerNews): KafkaProducer;
  /** For what the broker says of topics and of itself; neither connected nor closed. */
  readonly openAdmin: () => KafkaAsker;
  /**
   * One transactional id per bucket. Its producer is opened, which ends what every earlier producer of the id has under way,
   * before the first publish of the bucket, and again after each failure: whoever opened last is the one that can append.
   */
  readonly openFenced: ((bucket: number, news: ProducerNews) => KafkaProducer) | undefined;
}
/** One publish. */
interface Work {
  readonly batch: readonly OutboxMessage[];
  readonly results: Results;
  readonly deadline: Deadline;
  /** Parts for topics that are sent by themselves, when all others are through; in order. */
  readonly apart: Chunk[];
}

/** Publishes through a few producers with one send at a time each; a batch has its producer to itself. */
export class KafkaTransport extends OutboxTransport {
  override readonly receipt = 'broker';
  override readonly atomicRuns: boolean;
  override readonly limits: TransportLimits;
  /** Whatever the bucket; with fencing only a look whether the broker is there. */
  readonly slots: KafkaSlots;
  /** by bucket, with fencing */
  private readonly fenced = new Map<number, KafkaSlots>();
  /** For topics that ended a producer, or are to be asked about again. */
  private readonly apart: KafkaSlots;
  private readonly refused = new RefusedTopics();
  private readonly throttle = new KafkaThrottle((...said) => this.onState?.(...said));
  private readonly news: ProducerNews = {
    isRefused: (topic) => this.refused.has(topic),
    onThrottle: (ms) => this.throttle.hear(ms),
  };
  override readonly perBucket: boolean;
  private onState: TransportStateListener | undefined;
  /** what the last attempt to reach the broker said; an idle connection that Kafka closes says nothing */
  private reachable = false;
  private lastFailure: string | undefined;

  constructor(private readonly settings: KafkaTransportSettings) {
    super();
    this.atomicRuns = settings.atomicRuns;
    this.limits = settings.limits;
    this.perBucket = settings.openFenced !== undefined;
    const open = (slot: number): KafkaProducer => settings.openProducer(slot, this.news);
    this.slots = new KafkaSlots(this.perBucket ? 1 : settings.producers, open);
    this.apart = new KafkaSlots(1, () => open(settings.producers));
  }

  override destinationOf(message: OutboxMessage): string {
    const { given, topicPrefix } = this.settings.records;
    return topicName(given?.(message)?.topic ?? topicPrefix + message.topic);
  }

  override async connect(signal: AbortSignal, onState?: TransportStateListener): Promise<void> {
    this.onState = onState;
    for (const slots of this.pools()) slots.open();
    const deadline = new Deadline(signal);
    try {
      const connected = await this.slots.use(deadline, (slot) => withProducer(slot, deadline, async () => undefined));
      if (!connected) throw timedOut();
      this.noteReached();
    } catch (error) {
      this.noteFailure(blameFor(error, 0, 0).name);
      throw unavailable(`Kafka is not reachable (${this.lastFailure}).`, error);
    } finally {
      deadline.dispose();
    }
  }

  override findMissing(expected: readonly ExpectedMessages[], signal: AbortSignal): Promise<MissingDestination[]> {
    const { openAdmin, records, checkDestinations } = this.settings;
    if (!checkDestinations) return Promise.resolve([]);
    return findMissing(openAdmin, records.topicPrefix, expected, signal);
  }

  override diagnose(question: BrokerQuestion, signal: AbortSignal): Promise<readonly Finding[]> {
    return diagnose(this.settings.openAdmin, this.settings.records, question, signal);
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<PublishResult[]> {
    const results: Results = Array.from({ length: batch.length });
    const deadline = new Deadline(context.signal, context.timeout);
    const work: Work = { batch, results, deadline, apart: [] };
    const slots = this.slotsFor(batch);
    try {
      await slots.use(deadline, (slot) => this.publishOn(slot, work));
      if (work.apart.length > 0) {
        results.forEach((result, i) => result && context.report(i, result));
        const had = await (this.perBucket ? slots : this.apart).use(deadline, (slot) => this.publishApart(slot, work));
        if (!had) fillRest(results, NO_TURN);
      }
    } catch (error) {
      fillRest(results, failure(UNSENT.unavailable, error));
    } finally {
      deadline.dispose();
    }
    return fillRest(results, failure(UNSENT.unavailable, timedOut()));
  }

  override reset(): void {
    this.reachable = false;
    this.throttle.end();
    for (const { all } of this.pools())
      for (const { producer } of all) producer?.kill(unavailable('The connection was reset.'));
  }

  /** Waits for what is being published; the relay bounds that by its shutdown timeout, and then calls `reset`. */
  override async close(): Promise<void> {
    this.throttle.end();
    const pools = this.pools();
    await Promise.all(pools.map((slots) => slots.close()));
    await Promise.all(pools.flatMap(({ all }) => all.map((slot) => retire(slot))));
  }

  override health(): TransportHealth {
    const { text } = this.throttle;
    if (this.slots.closed) return { up: false, state: 'closed' };
    if (text !== undefined) return { up: true, state: 'blocked', detail: `${text}.` };
    if (this.reachable) return { up: true, state: 'connected' };
    const detail = this.lastFailure === undefined ? {} : { detail: `Kafka: ${this.lastFailure}.` };
    return { up: false, state: 'connecting', ...detail };
  }

  private pools(): KafkaSlots[] {
    return [this.slots, this.apart, ...this.fenced.values()];
  }

  private slotsFor([first]: readonly OutboxMessage[]): KafkaSlots {
    const { openFenced } = this.settings;
    if (openFenced === undefined || first === undefined) return this.slots;
    const { bucket } = first;
    let slots = this.fenced.get(bucket);
    if (slots === undefined) this.fenced.set(bucket, (slots = new KafkaSlots(1, () => openFenced(bucket, this.news))));
    return slots;
  }

  private noteReached(): void {
    this.reachable = true;
    this.lastFailure = undefined;
  }
  private noteFailure(name: string): void {
    this.reachable = false;
    this.lastFailure = name;
  }

  private async publishOn(slot: KafkaSlot, work: Work): Promise<void> {
    const { batch, results } = work;
    const plan = new RecordPlan(batch, this.settings.records);
    for (let chunk = plan.next(); chunk !== undefined; chunk = plan.next()) {
      const indexes = [...chunk.topics.values()].flatMap((records) => records.indexes);
      if (this.throttle.left > work.deadline.left) fillRest(results, THROTTLED); // it would end with its connection
      if (results[indexes[0]!] === THROTTLED || !(await this.sendChunk(slot, chunk, work))) {
        work.apart.length = 0; // the broker is away for these as well
        break;
      }
      for (const i of indexes) if (results[i]?.ok !== true) plan.block(i);
    }
    for (const i of plan.skipped) results[i] = SKIPPED;
    for (const { index, error } of plan.unreadable) results[index] = unreadable(error);
  }

  /** Each topic by itself; those that are wrong for the first time are asked about for a while before. */
  private async publishApart(slot: KafkaSlot, work: Work): Promise<void> {
    await withProducer(slot, work.deadline, (producer) => this.askAgain(producer, work));
    for (const { topics } of work.apart)
      for (const [topic, records] of topics) {
        const part: Chunk = { topics: new Map([[topic, records]]), size: records.indexes.length, bytes: 0 };
        if (!(await this.sendChunk(slot, part, work, true))) return;
      }
  }

  private async askAgain(producer: KafkaProducer, { apart, deadline }: Work): Promise<void> {
    const topics = apart.flatMap((chunk) => [...chunk.topics.keys()]);
    for (const pause of PAUSES) {
      const wrong = await producer.wrongAmong(topics);
      const isHoped = topics.some((topic) => wrong.has(topic) && !this.refused.has(topic));
      if (!isHoped || deadline.left < 2 * pause) return;
      await deadline.pause(pause);
    }
  }

  /**
   * Writes the results of one request; false when the rest of the batch need not be tried.
   * @param forgotten why the broker does not know the producer of before any more
   */
  private async sendChunk(
    slot: KafkaSlot,
    chunk: Chunk,
    work: Work,
    isApart = false,
    forgotten?: Error,
  ): Promise<boolean> {
    const { producer: before } = slot;
    let sender: KafkaProducer | undefined;
    try {
      await withProducer(slot, work.deadline, async (producer) => {
        await this.sortOut(producer, chunk, work, isApart);
        if (chunk.size > 0) {
          sender = producer;
          const nowhere = await producer.send(chunk, work.deadline.left, forgotten);
          this.noteReached();
          this.refused.gotThrough(chunk.topics.keys());
          for (const { indexes } of chunk.topics.values()) for (const i of indexes) work.results[i] = PUBLISHED;
          const { topicPrefix } = this.settings.records;
          for (const index of nowhere) work.results[index] = noPartition(topicPrefix, work.batch[index]!);
          producer.isSpent ||= nowhere.length > 0; // a partition may have been added since
        }
      });
      return true;
    } catch (error) {
      const wasIdle = isForgotten(error) && sender === before && !work.deadline.passed;
      if (wasIdle && before?.storedDespite(chunk).length === 0)
        return this.sendChunk(slot, chunk, work, isApart, error);
      const next = this.chunkFailed(error, sender, chunk, work);
      return next === 'again' ? this.sendChunk(slot, chunk, work, isApart) : next === 'go on';
    }
  }

  /** Leaves in the chunk what may share a request: topics that are wrong are refused, or asked about later. */
  private async sortOut(producer: KafkaProducer, chunk: Chunk, work: Work, isApart: boolean): Promise<void> {
    const wrong = await producer.wrongAmong([...chunk.topics.keys()]);
    const mayWait = !isApart && (this.perBucket || this.apart.isFree);
    const later = takeOut(chunk, (topic) =>
      wrong.has(topic) ? mayWait && !this.refused.has(topic) : !isApart && this.refused.goesApart(topic),
    );
    if (later !== undefined) work.apart.push(later);
    this.refuse(chunk, work, wrong);
  }

  /** Takes topics out of a chunk whose messages are refused, each over its own topic. */
  private refuse(chunk: Chunk, { results }: Work, errors: ReadonlyMap<string, unknown>, sender?: KafkaProducer): void {
    if (errors.size === 0) return;
    // Also those that rest now, and learn nothing of it by themselves.
    for (const { all } of this.pools()) for (const { producer } of all) producer?.beWaryOf(errors);
    const refused = takeOut(chunk, (topic) => errors.has(topic));
    for (const [topic, { indexes }] of refused?.topics ?? []) {
      const error = errors.get(topic);
      const verdict = blameFor(error, indexes.length, 1);
      this.refused.note(topic, sender?.guard.wrong.has(topic) === false);
      const result = failure(verdict, describe(verdict, error, [topic]), topic);
      for (const i of indexes) results[i] ??= result;
    }
  }

  /** What was stored is published, what was refused over its topic is out of the chunk; the others share the blame. */
  private chunkFailed(
    error: unknown,
    sender: KafkaProducer | undefined,
    chunk: Chunk,
    work: Work,
  ): 'go on' | 'again' | 'stop' {
    const { results, deadline } = work;
    for (const i of sender?.storedDespite(chunk) ?? []) results[i] = PUBLISHED;
    const wrong = deadline.passed ? undefined : sender?.refusedTopics(chunk);
    this.refuse(chunk, work, wrong ?? NONE, sender);
    const left = [...chunk.topics.values()].map(({ indexes }) => indexes.filter((i) => results[i] === undefined));
    const count = left.reduce((sum, indexes) => sum + indexes.length, 0);
    if (count === 0) return 'go on';
    const isPart = wrong !== undefined && wrong.size > 0;
    if (isPart && sender?.storedNothing) return 'again';
    const topics = [...chunk.topics.keys()].filter((_, i) => left[i]!.length > 0);
    // After a refusal over a topic the error speaks of that one, and nobody knows what it was with the others.
    const verdict = isPart
      ? UNKNOWN_REASON
      : blameFor(error, sender === undefined ? 0 : count, topics.length, deadline.passed);
    const [topic] = topics.length === 1 ? topics : [];
    const result = failure(verdict, deadline.passed ? timedOut() : describe(verdict, error, topics), topic);
    for (const i of left.flat()) results[i] = result;
    if (verdict.blame === 'transport') this.noteFailure(verdict.name);
    return verdict.blame === 'transport' ? 'stop' : 'go on';
  }
}

/** Milliseconds between questions about a topic that is wrong for the first time: somebody may be making it. */
const PAUSES = [50, 100, 200, 400, 800];
const NONE: ReadonlyMap<string, unknown> = new Map();
