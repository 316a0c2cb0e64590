import { Controller, UseFilters, UseInterceptors } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { Received, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { DataSource } from 'typeorm';
import { handleOnce } from '../consumer/handle-once.js';
import { AcknowledgeInterceptor } from './acknowledge.interceptor.js';
import { FaultFilter, Faults } from './faults.js';

@Controller()
@UseInterceptors(AcknowledgeInterceptor)
@UseFilters(FaultFilter)
export class BillingController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly faults: Faults,
  ) {}

  @EventPattern<string>('order.placed')
  async placed(@Received() { id, payload }: ReceivedMessage<{ orderId: string; total: number }>): Promise<void> {
    await handleOnce(this.dataSource, id, async (manager) => {
      await manager.query('insert into invoices (order_id, total) values ($1, $2)', [payload.orderId, payload.total]);
      this.faults.print(payload.orderId);
    });
  }

  @EventPattern<string>('order.paid')
  async paid(@Received() { id, payload }: ReceivedMessage<{ orderId: string; amount: number }>): Promise<void> {
    await handleOnce(this.dataSource, id, async (manager) => {
      const sql = 'update invoices set paid = paid + $2 where order_id = $1';
      await manager.query(sql, [payload.orderId, payload.amount]);
    });
    this.faults.thank(payload.orderId);
  }
}
