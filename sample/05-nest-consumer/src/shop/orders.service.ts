import { Injectable } from '@nestjs/common';
import { OutboxService } from 'nestjs-outbox';
import { DataSource } from 'typeorm';
import { Order } from './order.entity.js';
import { OrderPaid, OrderPlaced } from './orders.events.js';

@Injectable()
export class OrdersService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: OutboxService<OrderPlaced | OrderPaid>,
  ) {}

  async place(id: string, total: number): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      await manager.insert(Order, { id, total });
      await this.outbox.enqueue(new OrderPlaced(id, total), { manager });
    });
  }

  async pay(id: string): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      const { total } = await manager.findOneByOrFail(Order, { id });
      await manager.update(Order, { id }, { paid: true });
      await this.outbox.enqueue(new OrderPaid(id, total), { manager });
    });
  }
}
