import { Injectable } from '@nestjs/common';
import { OnOutboxEvent } from 'nestjs-outbox';
import { DataSource, MoreThanOrEqual } from 'typeorm';
import { ProductRow } from './entities.js';
import type { Order } from './order.js';

const REMEMBER = 'insert into handled_messages (id) values ($1) on conflict do nothing returning id';

@Injectable()
export class Stock {
  constructor(private readonly dataSource: DataSource) {}

  /** Once for each message: its id commits with the reservation. */
  @OnOutboxEvent({ type: 'order.placed' })
  async reserve({ items }: Order, { id }: { id: string }): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      const fresh: unknown[] = await manager.query(REMEMBER, [id]);
      if (fresh.length === 0) return;
      for (const { productId, quantity } of items) {
        const inStock = { id: productId, inStock: MoreThanOrEqual(quantity) };
        const { affected } = await manager.decrement(ProductRow, inStock, 'inStock', quantity);
        if (affected !== 1) throw new Error(`${productId}: ${quantity} are not in stock`);
        await manager.increment(ProductRow, { id: productId }, 'reserved', quantity);
      }
    });
  }
}
