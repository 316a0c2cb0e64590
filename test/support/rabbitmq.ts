import { randomBytes } from 'node:crypto';
import amqp, { type Channel, type ChannelModel, type Options } from 'amqplib';
import type { MessageHeaders } from '../../lib/index.js';
import type { ReceivedMessage } from './publish.js';

export interface QueueMessage extends ReceivedMessage {
  readonly content: Buffer;
  readonly properties: Record<string, unknown>;
  readonly fields: { readonly exchange: string; readonly routingKey: string };
}

/** An independent view of a broker: own connection, own queues and exchanges, removed at the end. */
export class RabbitMqObserver {
  readonly prefix = `outbox-test-${randomBytes(5).toString('hex')}`;
  private readonly queues: string[] = [];
  private readonly exchanges: string[] = [];
  private readonly messages = new Map<string, QueueMessage[]>();
  private readonly arrivals = new Set<() => void>();

  private constructor(
    readonly connection: ChannelModel,
    readonly channel: Channel,
  ) {}

  static async connect(url: string): Promise<RabbitMqObserver> {
    const connection = await amqp.connect(url);
    connection.on('error', () => {});
    const channel = await connection.createChannel();
    channel.on('error', () => {});
    return new RabbitMqObserver(connection, channel);
  }

  async queue(options: Options.AssertQueue = {}): Promise<string> {
    const name = `${this.prefix}-q${this.queues.length}`;
    this.queues.push(name);
    await this.channel.assertQueue(name, { durable: true, ...options });
    return name;
  }

  async exchange(type = 'topic'): Promise<string> {
    const name = this.unusedName();
    await this.channel.assertExchange(name, type);
    return name;
  }

  /** A name that is removed at the end should somebody make an exchange of it. */
  unusedName(): string {
    const name = `${this.prefix}-x${this.exchanges.length}`;
    this.exchanges.push(name);
    return name;
  }

  /** Consumes from now on; every message is acknowledged. `prefetch` 1 makes a slow consumer, 0 is no limit. */
  async consume(queue: string, prefetch = 0): Promise<void> {
    if (this.messages.has(queue)) return;
    await this.channel.prefetch(prefetch);
    const found: QueueMessage[] = [];
    this.messages.set(queue, found);
    await this.channel.consume(queue, (message) => {
      if (message === null) return;
      this.channel.ack(message);
      found.push(seen(message));
      for (const arrived of this.arrivals) arrived();
    });
  }

  /** What arrived so far, once it is `count` or more; fails when nothing arrived for `timeout`. */
  async received(queue: string, count: number, timeout = 60_000): Promise<readonly QueueMessage[]> {
    await this.consume(queue);
    const found = this.messages.get(queue)!;
    if (found.length >= count) return found;
    await new Promise<void>((resolve, reject) => {
      const done = (): void => {
        clearTimeout(timer);
        this.arrivals.delete(arrived);
      };
      const timer = setTimeout(() => {
        done();
        reject(new Error(`${found.length} of ${count} messages and ${timeout} ms without another`));
      }, timeout);
      const arrived = (): void => {
        timer.refresh();
        if (found.length < count) return;
        done();
        resolve();
      };
      this.arrivals.add(arrived);
    });
    return found;
  }

  /** What arrived until each of these did, in order; who was in doubt may be there twice. */
  async receivedAll(queue: string, ids: readonly string[]): Promise<readonly QueueMessage[]> {
    let found = await this.received(queue, ids.length);
    while (!ids.every((id) => found.some((message) => message.id === id)))
      found = await this.received(queue, found.length + 1);
    return found;
  }

  /** What arrived until this one did, in order. */
  receivedUpTo(queue: string, id: string): Promise<readonly QueueMessage[]> {
    return this.receivedAll(queue, [id]);
  }

  /** Messages in the queue that nobody consumed. */
  async depth(queue: string): Promise<number> {
    return (await this.channel.checkQueue(queue)).messageCount;
  }

  async close(): Promise<void> {
    for (const queue of this.queues) await this.channel.deleteQueue(queue);
    for (const exchange of this.exchanges) await this.channel.deleteExchange(exchange);
    await this.connection.close();
  }
}

function seen(message: { content: Buffer; properties: object; fields: object }): QueueMessage {
  const properties = message.properties as Record<string, unknown> & { headers: MessageHeaders; messageId: string };
  const { headers } = properties;
  return {
    id: properties.messageId,
    payload: headers['tombstone'] === 'true' ? null : message.content,
    key: (headers['key'] as string | undefined) ?? null,
    headers,
    content: message.content,
    properties,
    fields: message.fields as QueueMessage['fields'],
  };
}
