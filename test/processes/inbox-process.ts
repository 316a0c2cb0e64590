/** A Nest microservice with an inbox in a process of its own, which stops for ever at one point of one delivery. Started by `inbox.spec.ts`. */
import 'reflect-metadata';
import { Controller, Injectable, Module, UseInterceptors } from '@nestjs/common';
import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern, Transport, type MicroserviceOptions, type RmqContext } from '@nestjs/microservices';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { Channel, ConsumeMessage } from 'amqplib';
import { mergeMap, NEVER, of, tap, toArray, type Observable } from 'rxjs';
import type { EntityManager } from 'typeorm';
import { outboxDeserializer, Received, type ReceivedMessage } from '../../lib/consumer/index.js';
import { Idempotent, InboxModule, InboxService } from '../../lib/inbox/index.js';
import { databaseOptions } from './database-options.js';

export interface InboxSettings {
  readonly url: string;
  readonly rabbit: string;
  readonly queue: string;
  /** `commit`: within the transaction; `acknowledgement`: after its commit; `never`. */
  readonly hangsBefore: 'commit' | 'acknowledgement' | 'never';
}

const settings = JSON.parse(process.env['INBOX'] as string) as InboxSettings;
const tell = (what: object): void => void process.send?.(what);

@Injectable()
class AcknowledgeInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const rmq = context.switchToRpc().getContext<RmqContext>();
    return next.handle().pipe(
      toArray(),
      mergeMap((values) => {
        if (settings.hangsBefore !== 'acknowledgement') return of(values);
        tell({ hangs: true });
        return NEVER;
      }),
      tap({
        complete: () => {
          (rmq.getChannelRef() as Channel).ack(rmq.getMessage() as ConsumeMessage);
          tell({ acknowledged: true });
        },
      }),
    );
  }
}

@Controller()
@UseInterceptors(AcknowledgeInterceptor)
class Billing {
  constructor(private readonly inbox: InboxService) {}

  @EventPattern<string>('order.placed')
  @Idempotent()
  async placed(@Received() { id }: ReceivedMessage): Promise<void> {
    await (this.inbox.tx as EntityManager).query(`insert into invoices values ('${id}')`);
    if (settings.hangsBefore !== 'commit') return;
    tell({ hangs: true });
    await new Promise(() => {});
  }
}

@Module({
  imports: [TypeOrmModule.forRoot(databaseOptions(settings.url)), InboxModule.forRoot()],
  controllers: [Billing],
})
class Application {}

async function main(): Promise<void> {
  const { rabbit, queue } = settings;
  const app = await NestFactory.createMicroservice<MicroserviceOptions>(Application, {
    logger: false,
    transport: Transport.RMQ,
    options: {
      ...{ urls: [rabbit], queue, queueOptions: { durable: true }, noAck: false, prefetchCount: 1 },
      deserializer: outboxDeserializer(),
    },
  });
  app.enableShutdownHooks();
  await app.listen();
}

void main();
