import { Injectable } from '@nestjs/common';
import { OnOutboxEvent } from 'nestjs-outbox';
import { prisma } from './database.js';
import type { Order } from './order.js';

@Injectable()
export class Stock {
  /** Once for each message: its id commits with the reservation. */
  @OnOutboxEvent({ type: 'order.placed' })
  async reserve({ items }: Order, { id }: { id: string }): Promise<void> {
    await prisma.$transaction(async (tx) => {
      const fresh = await tx.handledMessage.createMany({ data: [{ id }], skipDuplicates: true });
      if (fresh.count === 0) return;
      for (const { productId, quantity } of items) {
        const changed = await tx.product.updateMany({
          where: { id: productId, inStock: { gte: quantity } },
          data: { inStock: { decrement: quantity }, reserved: { increment: quantity } },
        });
        if (changed.count === 0) throw new Error(`${productId}: ${quantity} are not in stock`);
      }
    });
  }
}
