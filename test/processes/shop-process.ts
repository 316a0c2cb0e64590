/** A Nest application in a process of its own, as `main.ts` has it. Started by `shop.ts`; says what happens to it. */
import 'reflect-metadata';
import { existsSync, openSync, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import {
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type TransportOption,
  OutboxTransport,
  PUBLISHED,
  type PublishResult,
} from '../../lib/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { databaseOptions } from './database-options.js';
import type { ShopSettings } from './shop.js';

const settings = JSON.parse(process.env['SHOP'] as string) as ShopSettings;
let blocked = false;
const tell = (what: object): void => void process.send?.(what);

/** Appends what it publishes to a file: the order in the file is the order of the publishes, across processes. */
class LedgerTransport extends OutboxTransport {
  readonly receipt = 'broker' as const;
  readonly ledger = openSync(settings.ledger as string, 'a');

  async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    if (settings.publish === 'hangs') {
      tell({ handed: batch.length });
      await new Promise(() => {});
    }
    if (settings.publish === 'blocks' && !blocked) {
      blocked = true;
      await new Promise((sent) => process.send?.({ handed: batch.length }, sent));
      while (!existsSync(`${settings.ledger}.go`)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    }
    await pause(20); // as a broker takes its time: something is always in flight
    writeSync(this.ledger, batch.map(({ key, id, body }) => `${key} ${String(body)} ${id} ${process.pid}\n`).join(''));
    return batch.map(() => PUBLISHED);
  }
}

function transport(): TransportOption {
  const { rabbit } = settings;
  if (rabbit === undefined) return new LedgerTransport();
  return rabbitmq({ url: rabbit.url, routingKey: () => rabbit.queue, heartbeat: '60s' });
}

async function main(): Promise<void> {
  const dataSource = await new DataSource(databaseOptions(settings.url)).initialize();
  const outbox = OutboxModule.forRoot({
    dataSource,
    transports: { default: transport() },
    pollInterval: 200,
    shutdownTimeout: settings.shutdownTimeout,
    logLevel: 'silent',
    // Longer than a test waits for anything: what comes all the same did not come by them.
    lease: '1h',
    publishTimeout: '20m',
    ...(settings.publish === 'blocks' ? { lease: '10s', publishTimeout: 1_000, batchSize: 10 } : {}),
  });
  @Module({ imports: [outbox] })
  class Shop {}
  const app = await NestFactory.createApplicationContext(Shop, { logger: false });
  if (settings.hooks) app.enableShutdownHooks();
  app.get(OutboxService).events.on('warning', ({ text }) => tell({ warning: text }));
  app.get(OutboxService).events.on('failed', ({ error }) => tell({ failed: error }));
  // Nothing of the outbox may keep the process: it ends when the channel to its parent does.
  process.once('message', () => {
    const closed = async (): Promise<void> => {
      await app.close();
      await dataSource.destroy(); // given to Nest as an object, so it is this file's
      tell({ closed: true, timers: process.getActiveResourcesInfo().filter((what) => what === 'Timeout').length });
      process.disconnect();
    };
    void closed();
  });
  const seen = setInterval(() => {
    if (process.listenerCount('SIGTERM') < 2) return;
    tell({ stopping: true });
    clearInterval(seen);
  }, 5).unref();
  tell({ ready: true });
}

void main();
