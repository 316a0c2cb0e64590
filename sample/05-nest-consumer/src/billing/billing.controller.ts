import { Controller, UseFilters, UseInterceptors } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { Received, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { Idempotent, InboxService } from 'nestjs-outbox/inbox';
import { AcknowledgeInterceptor } from './acknowledge.interceptor.js';
import { FaultFilter, Faults } from './faults.js';

@Controller()
@UseInterceptors(AcknowledgeInterceptor)
@UseFilters(FaultFilter)
export class BillingController {
  constructor(
    private readonly inbox: InboxService,
    private readonly faults: Faults,
  ) {}

  @EventPattern<string>('order.placed')
  @Idempotent()
  async placed(@Received() { payload }: ReceivedMessage<{ orderId: string; total: number }>): Promise<void> {
    await this.inbox.tx.query('insert into invoices (order_id, total) values ($1, $2)', [
      payload.orderId,
      payload.total,
    ]);
    this.faults.print(payload.orderId);
  }

  /** By hand: the thanks come behind the commit. */
  @EventPattern<string>('order.paid')
  async paid(@Received() received: ReceivedMessage<{ orderId: string; amount: number }>): Promise<void> {
    const { payload } = received;
    await this.inbox.once(received, async (tx) => {
      const sql = 'update invoices set paid = paid + $2 where order_id = $1';
      await tx.query(sql, [payload.orderId, payload.amount]);
    });
    this.faults.thank(payload.orderId);
  }
}
