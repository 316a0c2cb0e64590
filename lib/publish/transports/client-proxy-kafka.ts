import type { Kafka } from 'kafkajs';
import type { OutboxMessage } from '../../message.js';
import { PUBLISHED, type PublishResult } from '../transport.js';
import { blameForKafkaAnswer } from './client-proxy-blame.js';
import type { NestClient } from './client-proxy-kind.js';
import { atMost, CLOSE_DEADLINE, ClientLink } from './client-proxy-link.js';
import { fromInstance, SocketGuard } from './kafka-client.js';

/** The protected half of ClientKafka. */
interface KafkaClient extends NestClient {
  initialized?: unknown;
  _producer?: Disconnectable | null;
  _consumer?: Disconnectable | null;
  client?: unknown;
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
    return client.connect();
  }

  /** @internal */
  guarded(kafka: Kafka): Kafka {
    this.refuseIfDead();
    return fromInstance(kafka)(this.guard);
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

  /** After a lost reply kafkajs resolves the next send with the previous offset: its producer is thrown away. */
  override endsWith(): boolean {
    return true;
  }
  override verdict(_message: OutboxMessage, answer: unknown): PublishResult {
    if (this.client.options?.send?.acks === 0) return PUBLISHED;
    return blameForKafkaAnswer(answer) ?? PUBLISHED;
  }
}
