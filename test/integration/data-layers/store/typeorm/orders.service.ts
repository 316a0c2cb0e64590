import { randomUUID } from 'node:crypto';
import { BadRequestException, Injectable } from '@nestjs/common';
import { OutboxService } from 'nestjs-outbox';
import { DataSource, In } from 'typeorm';
import { OrderRow, ProductRow } from './entities.js';
import type { Order, OrderRequest } from './order.js';

@Injectable()
export class OrdersService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: OutboxService,
  ) {}

  async place({ userId, items }: OrderRequest): Promise<Order> {
    if (items.length === 0) throw new BadRequestException('An order has one item at least');
    return this.dataSource.transaction(async (manager) => {
      const ids = items.map(({ productId }) => productId);
      const rows = await manager.findBy(ProductRow, { id: In(ids) });
      const prices = new Map(rows.map((row) => [row.id, row.price]));
      const priced = items.map(({ productId, quantity }) => {
        const price = prices.get(productId);
        if (price === undefined) throw new BadRequestException(`There is no product ${productId}`);
        if (!(quantity >= 1)) throw new BadRequestException(`${productId}: the quantity is 1 at least`);
        return { productId, quantity, price };
      });
      const total = priced.reduce((sum, { price, quantity }) => sum + price * quantity, 0);
      const order: Order = { id: randomUUID(), userId, items: priced, total };
      await manager.insert(OrderRow, order);
      await this.outbox.enqueue({ type: 'order.placed', key: order.id, payload: order }, { manager });
      return order;
    });
  }
}
