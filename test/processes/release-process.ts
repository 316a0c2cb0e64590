/** An application on the package's public interface alone, which each release of it has. Started by `release.ts`. */
import 'reflect-metadata';
import { openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Module, type LoggerService } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { OutboxMessage, OutboxService } from '../../lib/index.js';
import { databaseOptions } from './database-options.js';
import type { ReleaseNews, ReleaseSettings } from './release.js';

const settings = JSON.parse(process.env['RELEASE'] as string) as ReleaseSettings;
const { path, url, buckets, setup = 'check' } = settings;
const tell = (news: ReleaseNews): void => void process.send?.(news);
const load = (name: string): Promise<never> =>
  import(
    path === undefined
      ? new URL(`../../lib/${name}.js`, import.meta.url).href
      : pathToFileURL(join(path, `${name}.js`)).href
  ) as never;

/** Where it was before the rooms, and where it is. */
const loadTypeOrm = (): Promise<never> => load('typeorm').catch(() => load('data-layers/typeorm/index'));

/** Keys of one writer. */
const KEYS = 20;
/** Milliseconds between two of its transactions. */
const PACE = 5;
const DEADLOCK = 1213;

async function migrate(): Promise<void> {
  const { outboxMigrations } = (await loadTypeOrm()) as typeof import('../../lib/data-layers/typeorm/index.js');
  const migrations = outboxMigrations({ buckets });
  const db = await new DataSource({ ...databaseOptions(url), migrations } as DataSourceOptions).initialize();
  await db.runMigrations();
  await db.destroy();
  tell({ migrated: true });
}

const quiet = (): void => {};
const logger: LoggerService = { log: quiet, warn: quiet, error: (text: unknown) => tell({ error: String(text) }) };

async function main(): Promise<void> {
  const { OutboxModule, OutboxService, OutboxTransport, PUBLISHED } = (await load(
    'index',
  )) as typeof import('../../lib/index.js');
  const ledger = openSync(settings.ledger, 'a');
  /** One write per batch: the order in the file is the order of the publishes, across processes. */
  class LedgerTransport extends OutboxTransport {
    readonly receipt = 'broker' as const;
    override readonly atomicRuns = true;
    async publish(batch: readonly OutboxMessage[]) {
      writeSync(ledger, batch.map(({ key, id, body }) => `${key} ${String(body)} ${id} ${process.pid}\n`).join(''));
      return batch.map(() => PUBLISHED);
    }
  }
  const dataSource = await new DataSource(databaseOptions(url)).initialize();
  const transports = { default: new LedgerTransport() };
  const outbox = OutboxModule.forRoot({
    dataSource,
    transports,
    buckets,
    database: { setup },
    lease: '30s',
    publishTimeout: '10s',
  });
  @Module({ imports: [outbox] })
  class Shop {}
  const app = await NestFactory.createApplicationContext(Shop, { logger, abortOnError: false });
  const writer = new Writer(dataSource, app.get(OutboxService));
  const writing = settings.writes === false ? Promise.resolve() : writer.write();
  process.on('message', () => void requeueAll(app.get(OutboxService)));
  process.once('SIGTERM', () => {
    writer.stopped = true;
    void writing
      .then(() => app.close())
      .then(() => dataSource.destroy())
      .then(() => process.disconnect());
  });
  tell({ ready: true });
}

async function requeueAll(outbox: OutboxService): Promise<void> {
  await outbox.requeue({ type: 'filled' });
}

class Writer {
  stopped = false;
  readonly committed = openSync(settings.committed, 'a');

  constructor(
    readonly dataSource: DataSource,
    readonly outbox: OutboxService,
  ) {}

  async write(): Promise<void> {
    let longest = 0;
    for (let turn = 0; !this.stopped; turn += 1) {
      const from = performance.now();
      await this.untilWritten(`p${process.pid}-${turn % KEYS}`, Math.floor(turn / KEYS) + 1, turn % 4 === 0);
      longest = Math.max(longest, performance.now() - from);
      await pause(PACE);
    }
    tell({ longest });
  }

  /** As an application does: InnoDB ends one of two transactions now and then, whatever they write. */
  async untilWritten(...message: Parameters<Writer['writeOne']>): Promise<void> {
    for (let written = false; !written;)
      written = await this.writeOne(...message).then(
        () => true,
        (error: { errno?: unknown }) => {
          if (error.errno !== DEADLOCK) throw error;
          return false;
        },
      );
  }

  async writeOne(key: string, n: number, deduplicated: boolean): Promise<void> {
    const id = await this.dataSource.transaction((manager) =>
      this.outbox.enqueue(
        { type: 'written', topic: 'written', key, payload: n },
        { manager, ...(deduplicated ? { dedupKey: `${key} ${n}` } : {}) },
      ),
    );
    writeSync(this.committed, `${key} ${n} ${String(id)} ${process.pid}\n`);
  }
}

const work = settings.migrates === true ? migrate() : main();
work.catch((error: unknown) => {
  const { code, message, hint } = error as { code?: string; message: string; hint?: string };
  process.send?.({ failed: [code, message, hint].join(' ') } satisfies ReleaseNews, () => process.exit(1));
});
