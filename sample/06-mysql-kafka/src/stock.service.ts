import { Injectable } from '@nestjs/common';
import { OutboxService } from 'nestjs-outbox';
import { DataSource } from 'typeorm';
import { Item } from './item.entity.js';
import { ItemReserved } from './item-reserved.event.js';

@Injectable()
export class StockService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: OutboxService,
  ) {}

  async receive(item: string, count: number): Promise<void> {
    await this.dataSource.manager.insert(Item, { id: item, left: count });
  }

  /** The row is locked before the enqueue, so that messages of an item stand in the order of their transactions. */
  async reserve(item: string, buyer: string): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      const row = await manager.findOneOrFail(Item, { where: { id: item }, lock: { mode: 'pessimistic_write' } });
      const left = row.left - 1;
      await manager.update(Item, { id: item }, { left });
      await this.outbox.enqueue(new ItemReserved(item, left, buyer), { manager });
      if (left < 0) throw new Error(`${item} is sold out`);
    });
  }
}
