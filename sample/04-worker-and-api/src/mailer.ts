import 'reflect-metadata';
import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Ctx, EventPattern, Payload, RmqContext, Transport } from '@nestjs/microservices';
import { queue } from './shared.js';

interface OrderPlaced {
  orderId: string;
  customer: string;
  total: number;
}

/** An ordinary Nest microservice: the event is its payload, and the message id is in the headers. */
@Controller()
export class Mailer {
  private readonly known = new Set<string>();

  @EventPattern<string>('order.placed')
  thank(@Payload() { orderId, customer, total }: OrderPlaced, @Ctx() context: RmqContext): void {
    const { id } = (context.getMessage() as { properties: { headers: { id: string } } }).properties.headers;
    // At least once: what was seen before is done already. A real one keeps this in its database.
    if (this.known.has(id)) return;
    this.known.add(id);
    process.send?.({ mail: { to: customer, orderId, total } });
  }
}

@Module({ controllers: [Mailer] })
export class MailerModule {}

const app = await NestFactory.createMicroservice(MailerModule, {
  logger: ['error', 'warn'],
  transport: Transport.RMQ,
  options: { urls: [process.env['RABBITMQ_URL'] ?? ''], queue: queue(), queueOptions: { durable: true } },
});
app.enableShutdownHooks();
await app.listen();
process.send?.({ ready: 'mailer' });
process.once('disconnect', () => void app.close());
