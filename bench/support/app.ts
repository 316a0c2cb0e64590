import 'reflect-metadata';
import type { INestApplicationContext, Provider } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxEvent, OutboxModule, type OutboxOptions } from '../../lib/index.js';
import { PAYLOAD_BYTES } from './rows.js';
import type { Closing } from './run.js';

@OutboxEvent<OrderPlaced>({ type: 'order.placed', topic: 'orders', key: (event) => event.orderId })
export class OrderPlaced {
  readonly note = NOTE;
  constructor(readonly orderId: string) {}
}
/** With the order's id, about as many bytes as everywhere. */
const NOTE = 'x'.repeat(PAYLOAD_BYTES - 35);

class Application {}

/** Name under which its backends are found. */
export const APPLICATION = 'bench-application';

/** A real Nest application with TypeORM and the outbox, as a user starts it. */
export async function startApplication(
  closing: Closing,
  url: string,
  outbox: OutboxOptions,
  poolSize = 8,
  providers: Provider[] = [],
): Promise<INestApplicationContext> {
  const application = await NestFactory.createApplicationContext(
    {
      module: Application,
      providers,
      imports: [
        TypeOrmModule.forRoot({
          ...(url.startsWith('postgres')
            ? { type: 'postgres', applicationName: APPLICATION, extra: { idleTimeoutMillis: 0 } }
            : { type: 'mariadb', timezone: 'Z' }),
          url,
          poolSize,
          retryAttempts: 0,
        }),
        OutboxModule.forRoot({ database: { setup: 'create' }, logLevel: 'warn', ...outbox }),
      ],
    },
    { logger: ['warn', 'error'], abortOnError: false },
  );
  closing.add(() => application.close());
  return application;
}
