import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { InjectDataSource, TypeOrmModule } from '@nestjs/typeorm';
import { OutboxEvent, OutboxModule, OutboxService } from 'nestjs-outbox';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { DataSource } from 'typeorm';
import { dyingBetweenPublishAndSettle } from './deaths.js';

const { DATABASE_URL = '', RABBITMQ_URL = '', EXCHANGE: exchange = 'shop', ORDERS, DIES } = process.env;

@OutboxEvent({ type: 'order.placed', topic: 'orders', key: (event) => event.orderId })
class OrderPlaced {
  constructor(
    readonly orderId: string,
    readonly total: number,
  ) {}
}

const broker = rabbitmq({
  url: RABBITMQ_URL,
  exchange,
  topology: { assertExchange: [{ name: exchange, type: 'topic', options: { durable: true } }] },
});

@Module({
  imports: [
    TypeOrmModule.forRoot({ type: 'postgres', url: DATABASE_URL }),
    OutboxModule.forRoot({
      transports: { default: DIES === 'true' ? dyingBetweenPublishAndSettle(broker) : broker },
      database: { setup: 'create' },
      // After a death its messages wait for this long.
      ...{ lease: '10s', publishTimeout: '2s' },
    }),
  ],
})
class Shop {
  constructor(
    @InjectDataSource() private readonly dataSource: DataSource,
    private readonly outbox: OutboxService<OrderPlaced>,
  ) {}

  /** Those that an earlier life has committed are there, each with its event. */
  async placeOrders(): Promise<void> {
    await this.dataSource.query('create table if not exists orders (id text primary key, total integer not null)');
    for (let n = 1; n <= Number(ORDERS); n++) {
      await this.dataSource.transaction(async (manager) => {
        const order = new OrderPlaced(`order-${n}`, n * 100);
        const sql = 'insert into orders values ($1, $2) on conflict do nothing returning id';
        const placed: unknown[] = await manager.query(sql, [order.orderId, order.total]);
        if (placed.length > 0) await this.outbox.enqueue(order, { manager });
      });
    }
  }
}

async function bootstrap(): Promise<void> {
  const app = await NestFactory.createApplicationContext(Shop, { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  process.once('disconnect', () => void app.close());
  await app.get(Shop).placeOrders();
  process.send?.({ placed: true });
}

void bootstrap();
