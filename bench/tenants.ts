import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { createConnection } from 'mysql2/promise';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxModule, OutboxService, PUBLISHED, type OutboxMessage, type PublishResult } from '../lib/index.js';
import { startMariadb } from './support/mariadb.js';
import { argument, percentile, round, smoke } from './support/measure.js';
import { adminClient, LOGGED, startPostgres, statementsOf } from './support/postgres.js';
import { NoopTransport } from './support/relay.js';
import { fillReady } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * Tenants with a schema and a DataSource each, on one outbox with one relay: what it has open and sends while idle, beside five named ones,
 * and how long the messages of the others wait while one tenant has a backlog; also where that goes to a transport of its own.
 *   npm run bench -- tenants [tenants=200] [databases=50] [backlog=100000] [seconds=10]
 * `databases` are tenants of a MariaDB. The transport takes 5 ms for a batch.
 */
const tenants = argument(0, 'tenants', 200);
const databases = argument(1, 'databases', 50);
const backlog = argument(2, 'backlog', 100_000);
const seconds = argument(3, 'seconds', 10);
const MESSAGES = 10;
const NAMED = 5;
/** Tenants that enqueue one message a second while another one has a backlog. */
const OTHERS = 20;
const SETTLE_DOWN = smoke(3_000, 200);

/** When each message came, and in which order those of a key did. */
class Arrivals {
  readonly at = new Map<string, number>();
  readonly numbers = new Map<string, unknown[]>();
  /** Of the large tenant. */
  imported = 0;
  /** Milliseconds that a batch takes. */
  batch = 0;

  async until(isOver: () => boolean): Promise<void> {
    for (const deadline = performance.now() + 120_000; !isOver(); await delay(5))
      if (performance.now() > deadline) throw new Error('The messages were not published in time.');
  }
}

class Timed extends NoopTransport {
  constructor(readonly arrivals: Arrivals) {
    super();
  }

  override async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    const { arrivals } = this;
    if (arrivals.batch > 0) await delay(arrivals.batch);
    for (const { id, key, payload } of batch) {
      if (key?.startsWith('large/') === true) arrivals.imported += 1;
      else arrivals.at.set(id, performance.now());
      if (key?.startsWith('order/') !== true) continue;
      const numbers = arrivals.numbers.get(key) ?? [];
      numbers.push(JSON.parse(new TextDecoder().decode(payload as Uint8Array)));
      arrivals.numbers.set(key, numbers);
    }
    return batch.map(() => PUBLISHED);
  }
}

interface Server {
  readonly options: DataSourceOptions;
  readonly count: number;
  /** Makes a schema with a table. */
  make(schema: string): Promise<void>;
  of(schema: string): object;
  /** Connections that are neither the application's own nor the tenants'. */
  connections(tenantsOpen: number): Promise<number>;
  /** That the relays sent so far; left out where the server does not tell. */
  statements?(): number;
}

/** Connections, and statements a second, of an outbox that has nothing to do. */
async function idle({ connections, statements }: Server, tenantsOpen: number): Promise<object> {
  await delay(SETTLE_DOWN);
  const before = statements?.() ?? 0;
  await delay(seconds * 1_000);
  const sent = (statements?.() ?? 0) - before;
  return {
    connections: await connections(tenantsOpen),
    ...(statements && { statementsPerSecond: round(sent / seconds, 1) }),
  };
}

async function start(options: DataSourceOptions, modules: Parameters<typeof OutboxModule.forRoot>[0][]) {
  const imports = [
    TypeOrmModule.forRoot({ ...options, retryAttempts: 0 } as object),
    ...modules.map((one) => OutboxModule.forRoot({ logLevel: 'warn', ...one })),
  ];
  return NestFactory.createApplicationContext(
    { module: class Tenants {}, imports },
    { logger: ['warn', 'error'], abortOnError: false },
  );
}

/** Each tenant commits its messages, ten transactions one after the other, on a DataSource of its own. */
async function commitAll(closing: Closing, outbox: OutboxService, server: Server, schemas: readonly string[]) {
  const open: DataSource[] = [];
  for (const schema of schemas) {
    const source = await new DataSource(server.of(schema) as DataSourceOptions).initialize();
    closing.add(() => source.isInitialized && source.destroy());
    open.push(source);
  }
  const begun = performance.now();
  for (let n = 0; n < MESSAGES; n += 1)
    await Promise.all(
      open.map((source, tenant) =>
        source.transaction(async (manager) => {
          await manager.query(`insert into invoice values (${n})`);
          await outbox.enqueue({ type: 'invoice', key: `order/${tenant}`, payload: n }, { manager });
        }),
      ),
    );
  return { ms: performance.now() - begun, open };
}

async function measureTenants(
  closing: Closing,
  server: Server,
): Promise<[Record<string, unknown>, INestApplicationContext, Arrivals]> {
  const schemas = Array.from({ length: server.count }, (_, n) => `tenant_${n}`);
  for (const schema of ['outbox', ...schemas]) await server.make(schema);
  const arrivals = new Arrivals();
  const database = { schema: 'outbox', setup: 'create' } as const;
  const five = await start(
    server.options,
    Array.from({ length: NAMED }, (_, n) => ({
      name: `named${n}`,
      transports: { default: new NoopTransport() },
      database: { ...database, prefix: `named${n}_` },
    })),
  );
  const fiveNamed = await idle(server, 0);
  await five.close();
  const app = await start(server.options, [
    { transports: { default: new Timed(arrivals), imports: new Timed(arrivals) }, database },
  ]);
  closing.add(() => app.close());
  const { ms, open } = await commitAll(closing, app.get(OutboxService), server, schemas);
  await arrivals.until(() => arrivals.at.size === schemas.length * MESSAGES);
  const expected = JSON.stringify(Array.from({ length: MESSAGES }, (_, n) => n));
  const wrong = [...arrivals.numbers.values()].filter((numbers) => JSON.stringify(numbers) !== expected);
  if (wrong.length > 0) throw new Error(`${wrong.length} keys were not in order.`);
  const result = {
    tenants: schemas.length,
    commitMs: round(ms),
    one: await idle(server, open.length),
    fiveNamed,
  };
  for (const source of open) await source.destroy();
  return [result, app, arrivals];
}

async function onPostgres(closing: Closing): Promise<Record<string, unknown>> {
  const postgres = await startPostgres(closing, { ...LOGGED, max_connections: String(tenants + 100) });
  const { url } = postgres;
  const admin = await adminClient(closing, url);
  const server: Server = {
    options: { type: 'postgres', url },
    count: tenants,
    make: async (schema) =>
      void (await admin.query(`create schema ${schema}; create table ${schema}.invoice (id int)`)),
    of: (schema) => ({ type: 'postgres', url, schema, extra: { max: 1, options: `-c search_path=${schema}` } }),
    statements: () => statementsOf(postgres).length,
    async connections() {
      const { rows } = await admin.query(
        `select count(*)::int as n from pg_stat_activity where application_name = 'nestjs-outbox'`,
      );
      return (rows[0] as { n: number }).n;
    },
  };
  const [result, app, arrivals] = await measureTenants(closing, server);
  await admin.query('set search_path = outbox');
  arrivals.batch = 5;
  const outbox = app.get(OutboxService);
  const [{ id }] = (await admin.query(`select id from outbox_transports where name = 'imports'`)).rows as [
    { id: number },
  ];

  /** Milliseconds from commit to publish of the others' messages. @param fill begins when they do */
  const waits = async (fill: (() => Promise<unknown>) | undefined): Promise<number[]> => {
    const committed = new Map<string, number>();
    arrivals.imported = 0;
    const end = performance.now() + seconds * 1_000;
    let filled = fill === undefined;
    void fill?.().then(() => (filled = true));
    const isOver = (): boolean =>
      fill === undefined ? performance.now() > end : filled && arrivals.imported >= backlog;
    for (let n = 0; !isOver(); n += 1) {
      const key = `other/${n % OTHERS}`;
      const written = await outbox.transaction(() => outbox.enqueue({ type: 'invoice', key, payload: n }));
      committed.set(written, performance.now());
      await delay(1_000 / OTHERS);
    }
    await arrivals.until(() => [...committed.keys()].every((one) => arrivals.at.has(one)));
    return [...committed].map(([one, from]) => (arrivals.at.get(one) as number) - from);
  };
  const fill = (to: number | undefined) => () =>
    fillReady(admin, {
      rows: backlog,
      keys: 10_000,
      prefix: 'large/',
      async commit(sql) {
        if (to !== undefined) await admin.query(`update outbox_ready set transport = ${to} where key like 'large/%'`);
        await admin.query(sql);
      },
    });
  const summary = (all: readonly number[]) => ({
    p50: round(percentile(all, 50), 1),
    p99: round(percentile(all, 99), 1),
    max: round(Math.max(...all), 1),
  });
  const calm = summary(await waits(undefined));
  const begun = performance.now();
  const beside = summary(await waits(fill(undefined)));
  const besideMs = round(performance.now() - begun);
  return {
    ...result,
    backlog,
    batchMs: arrivals.batch,
    unit: 'ms',
    calm,
    beside,
    besideMs,
    apart: summary(await waits(fill(id))),
  };
}

async function onMariadb(closing: Closing): Promise<Record<string, unknown>> {
  const { url } = await startMariadb(closing);
  const admin = await createConnection(url);
  closing.add(() => admin.destroy());
  const urlOf = (schema: string): string => url.replace(/\/bench$/, `/${schema}`);
  const server: Server = {
    options: { type: 'mariadb', url, poolSize: 1 },
    count: databases,
    async make(schema) {
      await admin.query(`create database ${schema}`);
      await admin.query(`create table ${schema}.invoice (id int)`);
    },
    of: (schema) => ({ type: 'mariadb', url: urlOf(schema), poolSize: 1 }),
    async connections(tenantsOpen) {
      const [rows] = await admin.query(`select count(*) as n from information_schema.processlist where user = 'bench'`);
      return (rows as unknown as [{ n: number }])[0].n - tenantsOpen - 2; // this one, and the application's
    },
  };
  const [result] = await measureTenants(closing, server);
  return result;
}

bench('tenants', async (closing) => ({
  messagesOfEach: MESSAGES,
  postgres: await onPostgres(closing),
  mariadb: databases === 0 ? null : await onMariadb(closing),
}));
