import { randomBytes } from 'node:crypto';
import amqp from 'amqplib';
import { DataSource } from 'typeorm';

/** Two databases, an exchange and a queue of this run's own. */
export class Surroundings {
  private readonly run = randomBytes(4).toString('hex');
  readonly exchange = `outbox-sample-shop-${this.run}`;
  readonly queue = `outbox-sample-billing-${this.run}`;

  private constructor(
    private readonly server: DataSource,
    private readonly database: string,
    private readonly broker: string,
  ) {}

  static async make(database: string, broker: string): Promise<Surroundings> {
    const server = await new DataSource({ type: 'postgres', url: database }).initialize();
    const surroundings = new Surroundings(server, database, broker);
    for (const name of ['shop', 'billing'] as const)
      await server.query(`create database ${surroundings.nameOf(name)} template template0 encoding 'UTF8'`);
    return surroundings;
  }

  /** What the process of this name is started with. */
  envOf(name: 'shop' | 'billing'): NodeJS.ProcessEnv {
    const { exchange, queue, broker } = this;
    return { DATABASE_URL: this.urlOf(name), RABBITMQ_URL: broker, EXCHANGE: exchange, QUEUE: queue, PORT: '0' };
  }

  async open(name: 'shop' | 'billing'): Promise<DataSource> {
    return new DataSource({ type: 'postgres', url: this.urlOf(name) }).initialize();
  }

  async remove(): Promise<void> {
    for (const name of ['shop', 'billing'] as const)
      await this.server.query(`drop database if exists ${this.nameOf(name)} with (force)`);
    await this.server.destroy();
    const connection = await amqp.connect(this.broker);
    const channel = await connection.createChannel();
    await channel.deleteQueue(this.queue);
    await channel.deleteExchange(this.exchange);
    await connection.close();
  }

  private nameOf(name: string): string {
    return `outbox_sample_${name}_${this.run}`;
  }

  private urlOf(name: string): string {
    const url = new URL(this.database);
    url.pathname = `/${this.nameOf(name)}`;
    return url.href;
  }
}
