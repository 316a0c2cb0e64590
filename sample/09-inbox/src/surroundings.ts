import { randomBytes } from 'node:crypto';
import amqp from 'amqplib';
import { DataSource } from 'typeorm';
import type { Row } from './verdict.js';

const NAMES = ['shop', 'billing'] as const;
type Name = (typeof NAMES)[number];

/** Two databases, an exchange and a queue of this run's own. */
export class Surroundings {
  private readonly run = randomBytes(4).toString('hex');
  readonly exchange = `outbox-sample-shop-${this.run}`;
  readonly queue = `outbox-sample-billing-${this.run}`;
  private readonly databases = new Map<Name, DataSource>();

  private constructor(
    private readonly server: DataSource,
    private readonly url: string,
    private readonly broker: string,
    private readonly connection: amqp.ChannelModel,
    private readonly channel: amqp.Channel,
  ) {}

  static async make(url: string, broker: string): Promise<Surroundings> {
    const server = await new DataSource({ type: 'postgres', url }).initialize();
    const connection = await amqp.connect(broker);
    const surroundings = new Surroundings(server, url, broker, connection, await connection.createChannel());
    for (const name of NAMES) {
      await server.query(`create database ${surroundings.nameOf(name)} template template0 encoding 'UTF8'`);
      const database = new DataSource({ type: 'postgres', url: surroundings.urlOf(name) });
      surroundings.databases.set(name, await database.initialize());
    }
    return surroundings;
  }

  /** What the service of this name is started with. */
  envOf(name: Name): NodeJS.ProcessEnv {
    const { exchange, queue, broker } = this;
    return { DATABASE_URL: this.urlOf(name), RABBITMQ_URL: broker, EXCHANGE: exchange, QUEUE: queue };
  }

  /** The shop has no message left. */
  async isPublished(): Promise<boolean> {
    const sql = 'select (select count(*) from outbox_messages) = 0 as done';
    const [row] = await this.query<{ done: boolean }>('shop', sql);
    return row?.done === true;
  }

  async isConsumed(): Promise<boolean> {
    return (await this.channel.checkQueue(this.queue)).messageCount === 0;
  }

  async rows(): Promise<{ orders: Row[]; invoices: Row[] }> {
    return {
      orders: await this.query<Row>('shop', 'select id, total from orders order by total'),
      invoices: await this.query<Row>('billing', 'select order_id as id, total from invoices order by total'),
    };
  }

  async remove(): Promise<void> {
    for (const database of this.databases.values()) await database.destroy();
    for (const name of NAMES) await this.server.query(`drop database if exists ${this.nameOf(name)} with (force)`);
    await this.server.destroy();
    await this.channel.deleteQueue(this.queue);
    await this.channel.deleteExchange(this.exchange);
    await this.connection.close();
  }

  private async query<T>(name: Name, sql: string): Promise<T[]> {
    return (await this.databases.get(name)?.query<T[]>(sql)) ?? [];
  }

  private nameOf(name: Name): string {
    return `outbox_sample_${name}_${this.run}`;
  }

  private urlOf(name: Name): string {
    const url = new URL(this.url);
    url.pathname = `/${this.nameOf(name)}`;
    return url.href;
  }
}
