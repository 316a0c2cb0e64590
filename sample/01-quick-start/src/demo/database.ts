import { DataSource } from 'typeorm';
import { Article } from '../shop/shop.entities.js';
import { ARTICLES } from './orders.js';
import type { CommittedOrder } from './verdict.js';

/** The demonstration's own look at the database, on a schema that is gone afterwards. */
export class ShopDatabase {
  private constructor(
    private readonly dataSource: DataSource,
    readonly schema: string,
  ) {}

  static async open(url: string, schema: string): Promise<ShopDatabase> {
    const dataSource = await new DataSource({ type: 'postgres', url, schema, entities: [Article] }).initialize();
    await dataSource.query(`drop schema if exists ${schema} cascade`);
    await dataSource.query(`create schema ${schema}`);
    return new ShopDatabase(dataSource, schema);
  }

  async version(): Promise<string> {
    const [{ server_version }] = (await this.dataSource.query('show server_version')) as [{ server_version: string }];
    return server_version.split(' ')[0]!;
  }
  async fillShelves(stock: number): Promise<void> {
    await this.dataSource.getRepository(Article).insert(ARTICLES.map((article) => ({ ...article, stock })));
  }
  orders(): Promise<CommittedOrder[]> {
    return this.dataSource.query(`select id, customer, number, total from ${this.schema}.orders`);
  }
  /** Messages that the outbox still has. */
  async waiting(): Promise<number> {
    const [{ count }] = (await this.dataSource.query(
      `select (select count(*) from ${this.schema}.outbox_ready) + (select count(*) from ${this.schema}.outbox_parked) as count`,
    )) as [{ count: string }];
    return Number(count);
  }
  async close(): Promise<void> {
    await this.dataSource.query(`drop schema if exists ${this.schema} cascade`);
    await this.dataSource.destroy();
  }
}
