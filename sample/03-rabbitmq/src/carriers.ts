import amqp from 'amqplib';

export interface Seen {
  readonly queue: string;
  readonly parcelId: string;
  readonly routingKey: string;
  readonly properties: amqp.MessageProperties;
}

/** Somebody else's consumers: they know RabbitMQ, and nothing of the outbox. */
export class Carriers {
  readonly seen: Seen[] = [];
  private readonly queues: string[] = [];

  private constructor(
    private readonly connection: amqp.ChannelModel,
    private readonly channel: amqp.Channel,
    private readonly exchange: string,
  ) {}

  static async connect(url: string, exchange: string): Promise<Carriers> {
    const connection = await amqp.connect(url);
    const channel = await connection.createChannel();
    await channel.assertExchange(exchange, 'topic', { durable: true });
    return new Carriers(connection, channel, exchange);
  }

  async open(country: string): Promise<void> {
    const queue = `${this.exchange}.${country}`;
    await this.channel.assertQueue(queue, { durable: true, maxPriority: 5 });
    this.queues.push(queue);
    const note = (message: amqp.ConsumeMessage | null): void => {
      if (message === null) return;
      const { parcelId } = JSON.parse(message.content.toString()) as { parcelId: string };
      this.seen.push({ queue, parcelId, routingKey: message.fields.routingKey, properties: message.properties });
      this.channel.ack(message);
    };
    await this.channel.consume(queue, note);
    await this.channel.bindQueue(queue, this.exchange, `parcel.sent.${country}`);
  }

  async close(): Promise<void> {
    for (const queue of this.queues) await this.channel.deleteQueue(queue);
    await this.channel.deleteExchange(this.exchange);
    await this.connection.close();
  }
}
