import { ConflictException, Injectable, UnprocessableEntityException } from '@nestjs/common';
import { OutboxService } from 'nestjs-outbox';
import { DataSource, type EntityManager, QueryFailedError } from 'typeorm';
import { OrderPlaced } from './order-placed.event.js';
import { Article, Customer, Order } from './shop.entities.js';

export interface NewOrder {
  orderId: string;
  customer: string;
  sku: string;
  quantity: number;
}

/** Of the dearest article; the total still fits into its column. */
export const MAX_QUANTITY = 430_000;

@Injectable()
export class OrdersService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: OutboxService,
  ) {}

  /** Order, message and stock: all of them, or none. Nothing here talks to a broker. */
  async place(order: NewOrder): Promise<void> {
    await this.dataSource
      .transaction(async (manager) => {
        const number = await this.nextNumber(manager, order.customer);
        const price = (await manager.findOneBy(Article, { sku: order.sku }))?.price ?? 0;
        const total = price * order.quantity;
        await manager.insert(Order, { ...order, id: order.orderId, number, total });
        await this.outbox.enqueue(
          new OrderPlaced(order.orderId, order.customer, number, order.sku, order.quantity, total),
          { manager },
        );
        // Fails when there is not enough: the order and its message, both written already, are rolled back.
        await manager.decrement(Article, { sku: order.sku }, 'stock', order.quantity);
      })
      .catch(refusal);
  }

  /** Locks the customer, so that numbers are given in the order of the commits. */
  private async nextNumber(manager: EntityManager, id: string): Promise<number> {
    await manager.createQueryBuilder().insert().into(Customer).values({ id }).orIgnore().execute();
    await manager.increment(Customer, { id }, 'orders', 1);
    return (await manager.findOneByOrFail(Customer, { id })).orders;
  }
}

/** The database's own words for what the shop does not accept. */
function refusal(error: unknown): never {
  const code = error instanceof QueryFailedError ? (error.driverError as { code?: string }).code : undefined;
  if (code === '23514') throw new ConflictException('out of stock');
  if (code === '23505') throw new ConflictException('duplicate order');
  if (code === '23503') throw new UnprocessableEntityException('unknown article');
  throw error;
}
