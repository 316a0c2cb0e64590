import type { Kafka, Producer, ProducerConfig } from 'kafkajs';
import type { OutboxMessage } from '../../outbox-message.js';
import { PUBLISHED, type PublishFailure, type PublishResult } from '../transport.js';
import { failed } from '../failure.js';
import { blameForKafkaAnswer, wrapped } from './blame.js';
import type { NestClient } from './kind.js';
import { atMost, CLOSE_DEADLINE, ClientLink } from './link.js';
import { fromInstance, SocketGuard } from '../kafkajs/client.js';
import { Seeds } from '../kafkajs/seeds.js';
import { blameFor, isOfTopic, describe, failure, unavailable } from '../kafkajs/blame.js';
import { KafkaThrottle } from '../kafkajs/throttle.js';
import { topicBehind } from '../kafkajs/metadata.js';

/** The protected half of ClientKafka. */
interface KafkaClient extends NestClient {
  initialized?: unknown;
  _producer?: Disconnectable | null;
  _consumer?: Disconnectable | null;
  client?: unknown;
  producerOnlyMode?: boolean;
  /** Topics of replies that the application waits for. */
  responsePatterns?: readonly string[];
  createClient?(): Kafka | Promise<Kafka>;
}
interface Disconnectable {
  disconnect(): Promise<void>;
}

/**
 * A kafkajs producer that was disconnected goes on retrying: it connects again and sends. Its sockets therefore come
 * from a guard that is shut at the death of the link; the next life has a new producer, with a new producer id.
 */
export class KafkaLink extends ClientLink {
  declare readonly client: KafkaClient;
  /** @internal */ readonly guard = new SocketGuard();
  /** @internal records on their way, by topic */
  readonly sending = new Map<string, number>();
  /** @internal */ readonly seeds: Seeds;
  /** @internal */ readonly throttle: KafkaThrottle;
  /** @internal the time of what it lost went while Kafka did not listen */ hasWaited = false;
  /** @internal the last of those that go one by one */ turn: Promise<unknown> = Promise.resolve();

  constructor(client: NestClient, before?: ClientLink) {
    super(client);
    this.seeds = before instanceof KafkaLink ? before.seeds : new Seeds();
    this.throttle = before instanceof KafkaLink ? before.throttle : new KafkaThrottle(this);
    this.throttle.transport = this;
    this.guard.onThrottle = (ms) => this.throttle.hear(ms);
  }

  override async connect(): Promise<unknown> {
    const { client } = this;
    this.guard.isTooLate = () => this.isTooLate();
    // Connected by the application, before the guard was there.
    if (client.initialized) await atMost(CLOSE_DEADLINE, this.letGo());
    this.refuseIfDead();
    const create = (Object.getPrototypeOf(client) as KafkaClient).createClient;
    if (create !== undefined) {
      client.createClient = () => {
        const created = create.call(client);
        return created instanceof Promise ? created.then((kafka) => this.guarded(kafka)) : this.guarded(created);
      };
    }
    this.leaveReplies();
    return client.connect();
  }

  /**
   * Nest's consumer is for replies. One that was cut off is a member of its group for half a minute, and until then nobody joins
   * it, nor connects. Without a topic to read there is none here.
   * @internal
   */
  leaveReplies(): void {
    const { client } = this;
    const isAsked = client.responsePatterns === undefined || client.responsePatterns.length > 0;
    client.producerOnlyMode = !isAsked || client.options?.['producerOnlyMode'] === true;
  }

  /** @internal */
  guarded(kafka: Kafka): Kafka {
    this.refuseIfDead();
    this.guard.isIdle = (topic) => this.sending.get(topic) === 0;
    // Its sends share one question, and kafkajs' retries, of ten seconds, would be everybody's: the outbox tries again.
    this.guard.isRefused = () => true;
    const own = fromInstance(kafka, this.seeds)(this.guard);
    const create = own.producer.bind(own);
    own.producer = (config?: ProducerConfig) => this.watched(create(config));
    return own;
  }

  /** @internal */
  watched(producer: Producer): Producer {
    const count = (topic: string, by: number): unknown => this.sending.set(topic, (this.sending.get(topic) ?? 0) + by);
    const send: Producer['send'] = async (record) => {
      count(record.topic, 1);
      try {
        for (let tries = 1; ; tries += 1) {
          try {
            return await producer.send(record);
          } catch (error) {
            // Sends that are under way together share one answer about the topics of all: that is no word about this one.
            if (!isOfAnother(error, record.topic)) throw error;
            if (tries === MOST_TRIES || this.dead) throw new OtherTopicError(error);
          }
        }
      } finally {
        count(record.topic, -1);
      }
    };
    return { ...producer, send };
  }

  /**
   * Kafka does not read the connection of a client over its quota, and what is on it would wait for its timeout: one by one, and
   * none before Kafka listens.
   */
  override emitWithin(left: () => number, ...emitted: Parameters<ClientLink['emit']>): Promise<PublishResult> {
    const { throttle } = this;
    if (!throttle.isNear) return this.emit(...emitted);
    const emit = async (): Promise<PublishResult> =>
      throttle.left >= left() - MARGIN || this.dead ? throttled() : this.emit(...emitted);
    const result = this.turn.then(emit, emit);
    this.turn = result;
    return result;
  }
  override get waitsFor(): string | undefined {
    return this.throttle.text;
  }
  override expire(reason: unknown, since: number): Promise<void> {
    this.hasWaited ||= this.throttle.last > since;
    return super.expire(reason, since);
  }
  override lost(reason: unknown, pattern: unknown): PublishFailure {
    return this.hasWaited || this.throttle.left > 0 ? throttled() : super.lost(reason, pattern);
  }
  override async close(): Promise<void> {
    this.throttle.end();
    await super.close();
  }

  override async destroy(): Promise<void> {
    this.guard.kill();
    await this.letGo();
  }

  /** Nest's close() would wait for a silent broker, and then clear what a newer life has put in these places. @internal */
  async letGo(): Promise<void> {
    const { client } = this;
    const { _producer: producer, _consumer: consumer } = client;
    client._producer = client._consumer = client.initialized = client.client = null;
    await Promise.allSettled([producer?.disconnect(), consumer?.disconnect()]);
  }

  /**
   * After a lost reply kafkajs resolves the next send with the previous offset: its producer is thrown away. What was refused as
   * such was answered.
   */
  override endsWith(error: unknown): boolean {
    return blameFor(error, 1, 1).blame === 'transport';
  }
  override failure(error: unknown, pattern?: unknown): PublishResult {
    if (error instanceof OtherTopicError) return failed('collateral', wrapped(error.cause));
    const topic = topicBehind(error) ?? (typeof pattern === 'string' ? pattern : undefined);
    const verdict = blameFor(error, 1, 1);
    if (topic === undefined || !isOfTopic(verdict.name)) return super.failure(error);
    return failure(verdict, describe(verdict, error, [topic]), topic);
  }
  override verdict(_message: OutboxMessage, answer: unknown): PublishResult {
    if (this.client.options?.send?.acks === 0) return PUBLISHED;
    return blameForKafkaAnswer(answer) ?? PUBLISHED;
  }
}

/** Milliseconds for an answer. */
const MARGIN = 500;

/** It is the fault of what went before. */
function throttled(): PublishFailure {
  return failed('collateral', unavailable('Kafka throttles this client.'));
}

/** Of a send that failed over the topics of others. */
const MOST_TRIES = 10;

/** A send that failed over the topic of another one. */
class OtherTopicError extends Error {
  constructor(override readonly cause: unknown) {
    super('Kafka refused the topic of another message.');
  }
}

function isOfAnother(error: unknown, topic: string): boolean {
  const behind = topicBehind(error);
  return behind !== undefined && behind !== topic;
}
