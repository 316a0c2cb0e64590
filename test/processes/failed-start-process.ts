/** A Nest application whose start fails, in a process of its own: nothing of the outbox may keep the process. */
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { OnOutboxEvent, OutboxModule, OutboxTransport } from '../../lib/index.js';
import { databaseOptions } from './database-options.js';
import type { FailedStart } from './failed-start.spec.js';

const settings = JSON.parse(process.env['FAILED_START'] as string) as FailedStart;
const tell = (what: object): void => void process.send?.(what);

class Unreachable extends OutboxTransport {
  readonly receipt = 'broker' as const;
  async publish(): Promise<never[]> {
    return [];
  }
}

@Injectable()
class Lost {
  @OnOutboxEvent({ type: 'order.placed' })
  handle(): void {}
}

/** The first outbox is good; the second one, or a handler of it, is not. */
async function main(): Promise<void> {
  const dataSource = await new DataSource(databaseOptions(settings.url)).initialize();
  const common = { dataSource, logLevel: 'silent' as const, transports: { default: new Unreachable() } };
  const first = OutboxModule.forRoot({ ...common, database: { setup: 'create' } });
  const second = {
    twin: () => OutboxModule.forRoot({ ...common, isGlobal: false }),
    handler: () => OutboxModule.forRoot({ ...common, name: 'second', database: { prefix: 'b_', setup: 'create' } }),
    transport: () =>
      OutboxModule.forRoot({
        ...common,
        name: 'second',
        database: { prefix: 'b_', setup: 'create' },
        transports: { default: { useFactory: () => Promise.reject(new Error('no such broker')) } },
      }),
  }[settings.fails]();
  @Module({ imports: [first, second], providers: settings.fails === 'handler' ? [Lost] : [] })
  class Shop {}
  try {
    await NestFactory.createApplicationContext(Shop, { logger: false, abortOnError: false });
    tell({ started: true });
  } catch (error) {
    tell({ failed: String((error as { code?: string }).code ?? error) });
  }
  await dataSource.destroy(); // given to Nest as an object, so it is this file's
  process.disconnect();
}

void main();
