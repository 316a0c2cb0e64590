import { Injectable } from '@nestjs/common';
import { OnOutboxEvent, type OutboxMessage } from 'nestjs-outbox';
import { Database } from './database.js';
import { letters } from './schema.js';
import { CouponRedeemed, OrderPlaced } from './shop.events.js';

/** After the commit, in order for each customer. */
@Injectable()
export class Letters {
  constructor(private readonly database: Database) {}

  @OnOutboxEvent(OrderPlaced)
  thank({ customer, number }: OrderPlaced, message: OutboxMessage): Promise<void> {
    return this.write(message.id, customer, `order ${number}`);
  }

  @OnOutboxEvent(CouponRedeemed)
  confirm({ customer, number }: CouponRedeemed, message: OutboxMessage): Promise<void> {
    return this.write(message.id, customer, `coupon for order ${number}`);
  }

  /** Messages come at least once: the message's id tells a repetition. */
  private async write(messageId: string, customer: string, about: string): Promise<void> {
    await this.database.db.insert(letters).values({ messageId, customer, about }).onConflictDoNothing();
  }
}
