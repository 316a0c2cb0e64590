import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClientsModule, Transport } from '@nestjs/microservices';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule } from 'nestjs-outbox';
import { database, MAIL, outbox, queue } from './shared.js';

@Module({
  imports: [
    TypeOrmModule.forRoot(database()),
    ClientsModule.register([
      {
        name: MAIL,
        transport: Transport.RMQ,
        options: {
          urls: [process.env['RABBITMQ_URL'] ?? ''],
          queue: queue(),
          queueOptions: { durable: true },
        },
      },
    ]),
    OutboxModule.forRoot(outbox(true)),
  ],
})
export class WorkerModule {}

/** Publishes, and takes no requests. Start as many as you like. */
const app = await NestFactory.createApplicationContext(WorkerModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
process.send?.({ ready: 'worker' });
process.once('disconnect', () => void app.close());
