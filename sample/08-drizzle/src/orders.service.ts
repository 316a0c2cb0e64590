import { Injectable } from '@nestjs/common';
import { eq, sql, TransactionRollbackError } from 'drizzle-orm';
import { OutboxService, type OutboxTransaction } from 'nestjs-outbox';
import { Database } from './database.js';
import { coupons, customers, orders } from './schema.js';
import { CouponRedeemed, OrderPlaced } from './shop.events.js';

interface Order {
  readonly id: number;
  readonly customer: string;
  readonly number: number;
}

@Injectable()
export class OrdersService {
  constructor(
    private readonly database: Database,
    private readonly outbox: OutboxService,
  ) {}

  /** The update locks the customer before the enqueue, so that messages of a customer stand in the order of their transactions. */
  place(customer: string, coupon?: string): Promise<void> {
    return this.database.db.transaction(async (tx) => {
      const counted = { orders: sql`${customers.orders} + 1` };
      const [row] = await tx.update(customers).set(counted).where(eq(customers.name, customer)).returning();
      if (row === undefined) throw new Error(`${customer} is no customer`);
      const [order] = await tx.insert(orders).values({ customer, number: row.orders }).returning();
      await this.outbox.enqueue(new OrderPlaced(customer, row.orders), { tx });
      if (coupon === 'forged') throw new Error(`${customer} has a forged coupon`); // takes order and message with it
      if (coupon !== undefined) await this.redeem(tx, order!, coupon);
    });
  }

  /** A savepoint: a coupon that was used before takes its message with it, and the order stays. */
  private async redeem(tx: OutboxTransaction, { id, customer, number }: Order, code: string): Promise<void> {
    const work = tx.transaction(async (savepoint) => {
      await this.outbox.enqueue(new CouponRedeemed(customer, number, code), { tx: savepoint });
      const inserted = await savepoint.insert(coupons).values({ code, order: id }).onConflictDoNothing();
      if (inserted.rowCount === 0) savepoint.rollback();
    });
    await work.catch((error: unknown) => {
      if (!(error instanceof TransactionRollbackError)) throw error;
    });
  }
}
