import amqp from 'amqplib';

/** Somebody else's consumer: it knows RabbitMQ, and nothing of the outbox. */
export class BoxOffice {
  /** How many tickets were left of each concert after each sale, in the order of arrival. */
  readonly left = new Map<string, number[]>();
  private readonly ids = new Set<string>();

  private constructor(
    private readonly connection: amqp.ChannelModel,
    private readonly channel: amqp.Channel,
    private readonly queue: string,
  ) {}

  static async open(url: string, queue: string): Promise<BoxOffice> {
    const connection = await amqp.connect(url);
    const channel = await connection.createChannel();
    await channel.assertQueue(queue, { durable: true });
    const office = new BoxOffice(connection, channel, queue);
    await channel.consume(queue, (message) => message && office.note(message));
    return office;
  }

  get count(): number {
    return this.ids.size;
  }

  async close(): Promise<void> {
    await this.channel.deleteQueue(this.queue);
    await this.connection.close();
  }

  private note(message: amqp.ConsumeMessage): void {
    const id = String(message.properties.messageId);
    const { concert, left } = JSON.parse(message.content.toString()) as { concert: string; left: number };
    if (!this.ids.has(id)) this.left.set(concert, [...(this.left.get(concert) ?? []), left]);
    this.ids.add(id);
    this.channel.ack(message);
  }
}
