import { randomBytes } from 'node:crypto';
import amqp from 'amqplib';
import { requiredUrl } from './services.js';

interface Packet {
  readonly pattern: string;
  readonly data: unknown;
}

/** An independent reader of one queue, with the broker's own client. */
export class QueueReader {
  readonly messages: amqp.ConsumeMessage[] = [];
  private readonly parsed: Packet[] = [];
  private connection!: amqp.ChannelModel;
  private channel!: amqp.Channel;

  constructor(readonly queue = `outbox-proxy-${randomBytes(6).toString('hex')}`) {}

  async start(consume = true): Promise<this> {
    this.connection = await amqp.connect(requiredUrl('rabbitmq'));
    this.channel = await this.connection.createChannel();
    await this.channel.assertQueue(this.queue, { durable: true });
    if (consume) await this.channel.consume(this.queue, (m) => m !== null && this.messages.push(m), { noAck: true });
    return this;
  }
  async depth(): Promise<number> {
    return (await this.channel.checkQueue(this.queue)).messageCount;
  }
  async bind(exchange: string, routingKey: string): Promise<void> {
    await this.channel.bindQueue(this.queue, exchange, routingKey);
  }
  /** The exchange goes, and its bindings with it. */
  async dropExchange(exchange: string): Promise<void> {
    await this.channel.deleteExchange(exchange);
  }
  async drop(): Promise<void> {
    await this.channel.deleteQueue(this.queue);
  }
  async stop(): Promise<void> {
    await this.drop();
    await this.connection.close();
  }
  /** Each is parsed once: some have megabytes, and who waits asks often. */
  packets(): readonly Packet[] {
    for (const { content } of this.messages.slice(this.parsed.length))
      this.parsed.push(JSON.parse(content.toString()) as Packet);
    return this.parsed;
  }
}
