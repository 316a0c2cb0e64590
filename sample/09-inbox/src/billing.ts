import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Transport, type MicroserviceOptions } from '@nestjs/microservices';
import { TypeOrmModule } from '@nestjs/typeorm';
import { outboxDeserializer } from 'nestjs-outbox/consumer';
import { InboxModule, InboxService } from 'nestjs-outbox/inbox';
import { DataSource } from 'typeorm';
import { BillingController } from './billing.controller.js';

const { DATABASE_URL = '', RABBITMQ_URL = '', EXCHANGE = 'shop', QUEUE = 'billing' } = process.env;

@Module({
  imports: [
    TypeOrmModule.forRoot({ type: 'postgres', url: DATABASE_URL }),
    InboxModule.forRoot({ database: { setup: 'create' } }),
  ],
  controllers: [BillingController],
})
class BillingModule {}

async function bootstrap(): Promise<void> {
  const app = await NestFactory.createMicroservice<MicroserviceOptions>(BillingModule, {
    logger: ['error', 'warn'],
    transport: Transport.RMQ,
    options: {
      urls: [RABBITMQ_URL],
      exchange: EXCHANGE,
      exchangeType: 'topic',
      routingKey: 'orders',
      queue: QUEUE,
      queueOptions: { durable: true },
      noAck: false,
      prefetchCount: 1,
      deserializer: outboxDeserializer(),
    },
  });
  app.enableShutdownHooks();
  process.once('disconnect', () => void app.close());
  await app
    .get(DataSource)
    .query('create table if not exists invoices (order_id text not null, total integer not null)');
  await app.listen();
  process.on(
    'message',
    () =>
      void app
        .get(InboxService)
        .stats()
        .then((stats) => process.send?.({ stats })),
  );
  process.send?.({ ready: true });
}

void bootstrap();
