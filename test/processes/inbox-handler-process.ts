/** A Nest application with handlers of its own outbox, which stop for ever at one point. Started by `inbox-handler.spec.ts`. */
import 'reflect-metadata';
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, Module, type DynamicModule } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { createPool } from 'mysql2/promise';
import type { EntityManager } from 'typeorm';
import { mysql2Layer } from '../../lib/data-layers/mysql2/index.js';
import { inProcess, OnOutboxEvent, OutboxModule, OutboxService } from '../../lib/index.js';
import { Idempotent, InboxModule, InboxService } from '../../lib/inbox/index.js';
import { databaseOptions } from './database-options.js';

export interface HandlerSettings {
  readonly url: string;
  /** Of the effect and the inbox, where it is another database. */
  readonly elsewhere?: string;
  /** `commit`: within the transaction of the effect; `settlement`: after its commit; `never`. */
  readonly hangsBefore: 'commit' | 'settlement' | 'never';
}

const settings = JSON.parse(process.env['HANDLER'] as string) as HandlerSettings;
const { url, elsewhere, hangsBefore } = settings;
const EVENT = { type: 'order.placed' };

const hang = (): Promise<never> => {
  process.send?.('hangs');
  return new Promise(() => {});
};

@Injectable()
class Ledger {
  constructor(
    private readonly inbox: InboxService,
    private readonly outbox: OutboxService,
  ) {}

  @OnOutboxEvent(EVENT)
  @Idempotent({ consumer: 'ledger' })
  async book({ orderId }: { orderId: string }): Promise<void> {
    await (this.inbox.tx as EntityManager).query(`insert into ledger values ('${orderId}')`);
    if (elsewhere !== undefined) {
      const refused = await this.outbox.enqueue({ ...EVENT, topic: 'orders', payload: {} }).catch(({ code }) => code);
      process.send?.(refused);
    }
    if (hangsBefore === 'commit') await hang();
  }

  /** While it runs, the outbox does not settle the message. */
  @OnOutboxEvent(EVENT)
  async watch(): Promise<void> {
    if (hangsBefore !== 'settlement') return;
    while (!this.inbox.counts().some(({ handled }) => handled > 0)) await pause(5);
    await hang();
  }
}

function inbox(): DynamicModule[] {
  if (elsewhere === undefined) return [InboxModule.forRoot()];
  const database = { setup: 'create' } as const;
  if (!elsewhere.startsWith('postgres'))
    return [InboxModule.forRoot({ dataLayer: mysql2Layer(createPool(elsewhere)), database })];
  const typeOrm = TypeOrmModule.forRoot({ ...databaseOptions(elsewhere), name: 'books' });
  return [typeOrm, InboxModule.forRoot({ dataSource: 'books', database })];
}

@Module({
  imports: [
    TypeOrmModule.forRoot(databaseOptions(url)),
    OutboxModule.forRoot({
      transports: { default: inProcess() },
      // Longer than a test waits for anything.
      ...{ lease: '1h', publishTimeout: '20m', pollInterval: 200, logLevel: 'silent', database: { setup: 'create' } },
    }),
    ...inbox(),
  ],
  providers: [Ledger],
})
class Application {}

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(Application, { logger: false });
  app.enableShutdownHooks();
  if (hangsBefore === 'never') return;
  const message = { ...EVENT, topic: 'orders', key: 'k', payload: { orderId: 'one' } };
  await app.get(OutboxService).enqueueOutsideTransaction(message);
}

void main();
