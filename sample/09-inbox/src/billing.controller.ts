import { Controller, UseInterceptors } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { Received, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { Idempotent, InboxService } from 'nestjs-outbox/inbox';
import { AcknowledgeInterceptor } from './acknowledge.interceptor.js';
import { DeliveriesInterceptor } from './deaths.js';

@Controller()
@UseInterceptors(AcknowledgeInterceptor, DeliveriesInterceptor)
export class BillingController {
  constructor(private readonly inbox: InboxService) {}

  /** Nothing in the table prevents a second invoice of an order: only the inbox does. */
  @EventPattern<string>('order.placed')
  @Idempotent()
  async placed(@Received() { payload }: ReceivedMessage<{ orderId: string; total: number }>): Promise<void> {
    await this.inbox.tx.query('insert into invoices values ($1, $2)', [payload.orderId, payload.total]);
  }
}
