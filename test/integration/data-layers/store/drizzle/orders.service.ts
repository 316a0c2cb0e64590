import { randomUUID } from 'node:crypto';
import { BadRequestException, Injectable } from '@nestjs/common';
import { inArray } from 'drizzle-orm';
import { OutboxService } from 'nestjs-outbox';
import { db, orders, products } from './database.js';
import type { Order, OrderRequest } from './order.js';

@Injectable()
export class OrdersService {
  constructor(private readonly outbox: OutboxService) {}

  async place({ userId, items }: OrderRequest): Promise<Order> {
    if (items.length === 0) throw new BadRequestException('An order has one item at least');
    return db.transaction(async (tx) => {
      const ids = items.map(({ productId }) => productId);
      const rows = await tx.select().from(products).where(inArray(products.id, ids));
      const prices = new Map(rows.map((row) => [row.id, row.price]));
      const priced = items.map(({ productId, quantity }) => {
        const price = prices.get(productId);
        if (price === undefined) throw new BadRequestException(`There is no product ${productId}`);
        if (!(quantity >= 1)) throw new BadRequestException(`${productId}: the quantity is 1 at least`);
        return { productId, quantity, price };
      });
      const total = priced.reduce((sum, { price, quantity }) => sum + price * quantity, 0);
      const order: Order = { id: randomUUID(), userId, items: priced, total };
      await tx.insert(orders).values(order);
      await this.outbox.enqueue({ type: 'order.placed', key: order.id, payload: order }, { tx });
      return order;
    });
  }
}
