import { Injectable } from '@nestjs/common';
import { and, eq, gte, sql } from 'drizzle-orm';
import { OnOutboxEvent } from 'nestjs-outbox';
import { db, handledMessages, products } from './database.js';
import type { Order } from './order.js';

@Injectable()
export class Stock {
  /** Once for each message: its id commits with the reservation. */
  @OnOutboxEvent({ type: 'order.placed' })
  async reserve({ items }: Order, { id }: { id: string }): Promise<void> {
    await db.transaction(async (tx) => {
      const fresh = await tx.insert(handledMessages).values({ id }).onConflictDoNothing().returning();
      if (fresh.length === 0) return;
      for (const { productId, quantity } of items) {
        const changed = await tx
          .update(products)
          .set({ inStock: sql`${products.inStock} - ${quantity}`, reserved: sql`${products.reserved} + ${quantity}` })
          .where(and(eq(products.id, productId), gte(products.inStock, quantity)))
          .returning();
        if (changed.length === 0) throw new Error(`${productId}: ${quantity} are not in stock`);
      }
    });
  }
}
