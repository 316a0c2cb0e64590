import type { Kafka, Producer, ProducerBatch, ProducerConfig, RecordMetadata } from 'kafkajs';
import { stopwatch, systemClock } from '../../time/clock.js';
import { OutboxError } from '../../outbox.errors.js';
import { SocketGuard, type GuardedKafka, type GuardedUse } from '../kafkajs/client.js';
import { askAbout } from '../kafkajs/metadata.js';
import { ProduceAnswers, type PartitionAnswer } from '../kafkajs/produce-response.js';
import type { Deadline } from '../deadline.js';
import { timedOut } from '../kafkajs/blame.js';
import type { Chunk } from './records.js';
import { topicErrorOf } from './topics.js';

/** How long a clean disconnect may take before the sockets are cut. */
const DISCONNECT_TIMEOUT = 2000;
/** Records of one producer. Kafka counts them in each partition up to 2^31, and kafkajs goes wrong there by one. */
const MOST_RECORDS = 2 ** 30;

export interface SendSettings {
  readonly acks: -1 | 1;
  readonly compression: number;
  readonly transactional: boolean;
}
/** What all producers of a transport learn, and ask. */
export type ProducerNews = Pick<GuardedUse, 'isRefused' | 'onThrottle'>;

/**
 * One kafkajs producer with one send at a time, used until the first send without a definite answer and then thrown away.
 *
 * Why one at a time: after a failure kafkajs winds its sequence numbers back, and a send that runs beside it would go
 * out under numbers that the broker has seen; the broker would confirm it and store nothing.
 * Why thrown away: a rejected send may be stored in part. Only a new producer id makes the broker forget the numbers.
 */
export class KafkaProducer {
  readonly guard: SocketGuard;
  readonly producer: Producer;
  private readonly ends = new Set<(error: unknown) => void>();
  /** last offset that the broker gave to this producer, by topic and partition */
  private readonly lastOffsets = new Map<string, number>();
  /** of the publish that has this producer now */ private deadline: Deadline | undefined;
  /** the last chunk, unless it was asked about topics since */ private sending: Chunk | undefined;
  /** records that are stored */
  stored = 0;
  /** The next send is to be another producer's. */
  isSpent = false;

  constructor(
    kafka: GuardedKafka,
    config: ProducerConfig,
    private readonly settings: SendSettings,
    news?: ProducerNews,
  ) {
    this.guard = new SocketGuard({
      ...news,
      isTooLate: () => this.deadline?.passed === true,
      isIdle: (topic) => this.sending?.topics.has(topic) !== true,
    });
    const client: Kafka = kafka(this.guard);
    this.producer = client.producer(config);
  }

  get dead(): boolean {
    return this.guard.dead;
  }

  connect(): Promise<void> {
    return this.orKilled(this.producer.connect());
  }

  /** What is wrong with some of these topics, by topic, and with the others of this producer. Rejects when it is killed. */
  async wrongAmong(topics: readonly string[]): Promise<ReadonlyMap<string, unknown>> {
    this.sending = undefined;
    await this.orKilled(askAbout(topics, this.guard.cluster, this.guard));
    return this.guard.wrong;
  }

  /** Something is wrong with these topics: one may be made anew, and the offsets of what this producer has sent to it with it. */
  beWaryOf(topics: ReadonlyMap<string, unknown>): void {
    for (const place of this.lastOffsets.keys()) this.isSpent ||= topics.has(place.slice(0, place.lastIndexOf(':')));
  }

  /** Of the last send, which failed: nothing is stored, as no records went out, or in a transaction that cannot be committed. */
  get storedNothing(): boolean {
    return this.settings.transactional || this.isUnsent;
  }
  get isUnsent(): boolean {
    return this.guard.answers?.asked !== true;
  }

  /** Topics of the last send that are refused as such, each with its error: by the answer about them, or to their records. */
  refusedTopics({ topics }: Chunk): Map<string, unknown> {
    const lastSaid = new Map<string, PartitionAnswer>();
    for (const answer of this.guard.answers?.said ?? [])
      lastSaid.set(`${answer.topicName}:${answer.partition}`, answer);
    const refused = new Map<string, unknown>();
    for (const { topicName, errorCode } of lastSaid.values()) {
      const error = topicErrorOf(errorCode);
      if (error !== undefined) refused.set(topicName, error);
    }
    for (const [topic, error] of this.guard.wrong) if (topics.has(topic)) refused.set(topic, error);
    return refused;
  }

  /**
   * Resolves when every record is stored but those of the returned indexes: their fixed partition does not exist and they
   * were not sent. Rejects at once when the producer is killed.
   *
   * @param forgotten why the broker does not know the id of the producer before this one; thrown if it was another relay's since
   */
  send(chunk: Chunk, timeout: number, forgotten?: Error): Promise<number[]> {
    const { transactional } = this.settings;
    this.sending = chunk;
    this.guard.answers = new ProduceAnswers();
    return this.orKilled(
      transactional
        ? this.sendInTransaction(chunk, timeout, forgotten)
        : this.sendToAll(chunk, timeout, this.guard.answers),
    );
  }

  /** When the deadline passes the producer is killed, and until the returned function is called nothing is written after it. */
  endAt(deadline: Deadline): () => void {
    this.deadline = deadline;
    const release = deadline.onPass(() => this.kill(timedOut(this.guard.silence)));
    return () => {
      release();
      this.deadline = undefined;
    };
  }

  /** For good and at once: nothing is sent after this returned. */
  kill(reason: unknown): void {
    if (this.guard.dead) return;
    this.guard.kill();
    this.producer.disconnect().catch(() => undefined);
    for (const end of this.ends) end(reason);
  }

  async close(): Promise<void> {
    if (this.guard.dead) return;
    const cancel = systemClock.after(DISCONNECT_TIMEOUT, () => this.kill(new Error('The disconnect took too long.')));
    try {
      await this.orKilled(this.producer.disconnect());
    } catch {
      // Cut below.
    } finally {
      cancel();
      this.kill(new Error('The transport was closed.'));
    }
  }

  private async sendToAll(chunk: Chunk, timeout: number, answers: ProduceAnswers): Promise<number[]> {
    try {
      return await this.sendOn(this.producer, chunk, timeout);
    } catch (error) {
      await answers.ofOthers();
      throw error;
    }
  }

  private async sendInTransaction(chunk: Chunk, timeout: number, forgotten: Error | undefined): Promise<number[]> {
    const elapsed = stopwatch(systemClock);
    const transaction = await this.producer.transaction();
    try {
      // The first one asks for the id. With fencing it is another relay's by rights when this process stood still meanwhile.
      if (elapsed() >= timeout) throw timedOut();
      // Whether this relay may end the other one's producer is for its lease to say, and this publish began before.
      if (forgotten !== undefined && this.guard.epoch > 0) throw forgotten;
      const result = await this.sendOn(transaction, chunk, timeout);
      await transaction.commit();
      return result;
    } catch (error) {
      // Lets consumers go on without waiting for the transaction's timeout. The producer is thrown away either way,
      // and its successor's start ends whatever is left open.
      if (!this.dead && transaction.isActive()) await transaction.abort().catch(() => undefined);
      throw error;
    }
  }

  private async sendOn(sender: Pick<Producer, 'sendBatch'>, chunk: Chunk, timeout: number): Promise<number[]> {
    const { acks, compression } = this.settings;
    const topicMessages: ProducerBatch['topicMessages'] = [];
    for (const [topic, { records }] of chunk.topics) topicMessages.push({ topic, messages: records });
    const answer = await sender.sendBatch({ acks, compression, timeout, topicMessages });
    return this.check(chunk, answer);
  }

  /** kafkajs resolves a send although a partition is unknown, or was skipped in a retry: only the answer counts. */
  check(chunk: Chunk, answer: RecordMetadata[]): number[] {
    const stored = new Map<string, number>();
    for (const { topicName, partition, errorCode, baseOffset, offset } of answer) {
      const first = Number(baseOffset ?? offset ?? -1);
      if (errorCode === 0 && first >= 0) stored.set(`${topicName}:${partition}`, first);
    }
    const nowhere: number[] = [];
    const counts = new Map<string, number>();
    for (const [topic, { records, indexes }] of chunk.topics) {
      for (let i = 0; i < records.length; i += 1) {
        const place = `${topic}:${records[i]!.partition}`;
        if (stored.has(place)) counts.set(place, (counts.get(place) ?? 0) + 1);
        else if (records[i]!.nowhere === true) nowhere.push(indexes[i]!);
        else throw new OutboxError('TRANSPORT_UNAVAILABLE', 'Kafka gave no answer for one of the partitions.');
      }
    }
    for (const [place, count] of counts) this.advance(place, stored.get(place)!, count);
    return nowhere;
  }

  /**
   * Indexes of the messages of the last send that were stored although it was rejected, because others of it were refused.
   * None in a transaction, which was aborted.
   */
  storedDespite(chunk: Chunk): number[] {
    const { answers } = this.guard;
    if (this.settings.transactional || answers === undefined) return [];
    const isNew = ({ topicName, partition, baseOffset }: PartitionAnswer): boolean =>
      Number(baseOffset) > (this.lastOffsets.get(`${topicName}:${partition}`) ?? -1);
    const stored = new Set(answers.stored.filter(isNew).map(({ topicName, partition }) => `${topicName}:${partition}`));
    return [...chunk.topics].flatMap(([topic, { records, indexes }]) =>
      indexes.filter((_, i) => stored.has(`${topic}:${records[i]!.partition}`)),
    );
  }

  /** An offset of before means that the broker took the records for a repetition and stored nothing. */
  private advance(place: string, first: number, count: number): void {
    if (first <= (this.lastOffsets.get(place) ?? -1)) {
      throw new OutboxError('TRANSPORT_UNAVAILABLE', 'Kafka answered with an offset of an earlier send.');
    }
    this.lastOffsets.set(place, first + count - 1);
    this.stored += count;
    this.isSpent ||= this.stored >= MOST_RECORDS;
  }

  private orKilled<T>(work: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const settle =
        <V>(how: (value: V) => void) =>
        (value: V): void => {
          this.ends.delete(reject);
          how(value);
        };
      this.ends.add(reject);
      work.then(settle(resolve), settle(reject));
    });
  }
}
