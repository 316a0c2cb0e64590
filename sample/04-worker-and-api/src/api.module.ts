import { Body, Controller, HttpCode, Injectable, Module, Post } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule, OutboxService } from 'nestjs-outbox';
import { DataSource } from 'typeorm';
import { OrderPlaced } from './order-placed.event.js';
import { Order } from './orders.entities.js';
import { database, outbox } from './shared.js';

@Injectable()
export class OrdersService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: OutboxService<OrderPlaced>,
  ) {}

  async place({ id, customer, total }: Order): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      await manager.insert(Order, { id, customer, total });
      await this.outbox.enqueue(new OrderPlaced(id, customer, total), { manager });
    });
  }
}

@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Post()
  @HttpCode(202)
  async place(@Body() order: Order): Promise<void> {
    await this.orders.place(order);
  }
}

@Module({
  imports: [TypeOrmModule.forRoot({ ...database(), synchronize: true }), OutboxModule.forRoot(outbox(false))],
  controllers: [OrdersController],
  providers: [OrdersService],
})
export class ApiModule {}
