import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule } from 'nestjs-outbox';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { Order } from './order.entity.js';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';

const exchange = process.env['EXCHANGE'] ?? 'shop';

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: process.env['DATABASE_URL'] ?? '',
      entities: [Order],
      synchronize: true,
    }),
    OutboxModule.forRoot({
      database: { setup: 'create' },
      transports: {
        default: rabbitmq({
          url: process.env['RABBITMQ_URL'] ?? '',
          exchange,
          // As the consumer asserts it too: whoever starts first makes it.
          topology: { assertExchange: [{ name: exchange, type: 'topic', options: { durable: true } }] },
        }),
      },
    }),
  ],
  controllers: [OrdersController],
  providers: [OrdersService],
})
export class ShopModule {}
