import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { Transport, type MicroserviceOptions } from '@nestjs/microservices';
import { outboxDeserializer } from 'nestjs-outbox/consumer';
import { BillingModule } from './billing.module.js';

/** A Nest microservice with an inbox, and without an outbox. */
async function bootstrap(): Promise<void> {
  const app = await NestFactory.createMicroservice<MicroserviceOptions>(BillingModule, {
    logger: ['error', 'warn'],
    transport: Transport.RMQ,
    options: {
      urls: [process.env['RABBITMQ_URL'] ?? ''],
      exchange: process.env['EXCHANGE'] ?? 'shop', // Nest asserts exchange and queue, and binds them
      exchangeType: 'topic',
      routingKey: 'orders', // the messages' topic
      queue: process.env['QUEUE'] ?? 'billing',
      queueOptions: { durable: true },
      noAck: false, // acknowledged when the work is done
      prefetchCount: 1, // one at a time, in order
      deserializer: outboxDeserializer(),
    },
  });
  app.enableShutdownHooks();
  await app.listen();
  process.send?.({ ready: 'billing' });
  process.once('disconnect', () => void app.close());
}

void bootstrap();
