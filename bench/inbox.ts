import { createUuidV7 } from '../lib/message/uuid-v7.js';
import type { EntityManager } from 'typeorm';
import { DataSource } from 'typeorm';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxModule, InboxService } from '../lib/inbox/index.js';
import { openSession, startMariadb } from './support/mariadb.js';
import { argument, Samples, timed } from './support/measure.js';
import { adminClient, SLOW_FLUSH, startPostgres } from './support/postgres.js';
import { bench, type Closing } from './support/run.js';

/**
 * What the inbox costs a handler's transaction (INSERT, UPDATE, COMMIT), beside as many messages as are remembered: 8 handlers at
 * once, on PostgreSQL and MariaDB; and what a repetition costs.
 *   npm run bench -- inbox [remembered=1000000] [transactions=10000] [repeats=5]
 */
const remembered = argument(0, 'remembered', 1_000_000);
const transactions = argument(1, 'transactions', 10_000);
const repeats = argument(2, 'repeats', 5);
const HANDLERS = 8;
const ACCOUNTS = 100_000;
const uuid = createUuidV7();

interface Server {
  readonly name: string;
  readonly options: object;
  run(sql: string): Promise<unknown>;
  readonly series: (count: number) => string;
  readonly number: string;
}

async function effect(manager: EntityManager): Promise<void> {
  const account = 1 + Math.floor(Math.random() * ACCOUNTS);
  await manager.query(`insert into invoices (customer, note) values (${account}, 'hello')`);
  await manager.query(`update accounts set balance = balance + 1 where id = ${account}`);
}

async function open(closing: Closing, server: Server): Promise<{ dataSource: DataSource; inbox: InboxService }> {
  const app = await NestFactory.createApplicationContext(
    {
      module: class Billing {},
      imports: [
        TypeOrmModule.forRoot({ ...server.options, poolSize: HANDLERS, retryAttempts: 0 } as never),
        InboxModule.forRoot({ database: { setup: 'create' } }),
      ],
    },
    { logger: ['warn', 'error'], abortOnError: false },
  );
  closing.add(() => app.close());
  return { dataSource: app.get(DataSource), inbox: app.get(InboxService) };
}

async function fill({ run, series, number, name }: Server): Promise<void> {
  const now = name === 'postgres' ? 'now()' : 'utc_timestamp(6)';
  const id =
    name === 'postgres'
      ? `'01938f00-0000-7000-8000-' || lpad(to_hex(${number}), 12, '0')`
      : `concat('01938f00-0000-7000-8000-', lpad(lower(hex(${number})), 12, '0'))`;
  await run('create table invoices (id serial primary key, customer int, note varchar(40))');
  await run('create table accounts (id int primary key, balance bigint not null)');
  await run(`insert into accounts select ${number}, 0 from ${series(ACCOUNTS)}`);
  await run(
    `insert into outbox_inbox (consumer, message_id, received_at) select 'default', ${id}, ${now} from ${series(remembered)}`,
  );
  await run(name === 'postgres' ? 'vacuum analyze outbox_inbox' : 'analyze table outbox_inbox');
}

/** @returns microseconds of the wall clock a transaction */
async function each(work: () => Promise<unknown>): Promise<number> {
  let left = transactions;
  const { ms } = await timed(() =>
    Promise.all(
      Array.from({ length: HANDLERS }, async () => {
        while (left-- > 0) await work();
      }),
    ),
  );
  return (ms * 1_000) / transactions;
}

async function measure(closing: Closing, server: Server, samples: Samples): Promise<void> {
  const { dataSource, inbox } = await open(closing, server);
  await fill(server);
  const bare = (): Promise<unknown> => dataSource.transaction(effect);
  const once = (): Promise<unknown> => inbox.once(uuid(), (tx) => effect(tx as EntityManager));
  const known = Array.from({ length: 1_000 }, uuid);
  for (const id of known) await inbox.once(id, () => undefined);
  const oneOfThem = (): string => known[Math.floor(Math.random() * known.length)] as string;
  for (const work of [bare, once]) await Promise.all(Array.from({ length: 500 }, work)); // code that runs for the first time is slow
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const [without, withInbox, repetition] = [
      await each(bare),
      await each(once),
      await each(() => inbox.once(oneOfThem(), effect as never)),
    ];
    samples.add({
      [`${server.name}Bare`]: without,
      [`${server.name}Once`]: withInbox,
      [`${server.name}Ratio`]: withInbox / without,
      [`${server.name}Repetition`]: repetition,
    });
  }
}

bench('inbox', async (closing) => {
  const samples = new Samples();
  const postgres = await startPostgres(closing, { ...SLOW_FLUSH, autovacuum: 'off' });
  const admin = await adminClient(closing, postgres.url);
  const series = (count: number): string => `generate_series(1, ${count}) n`;
  const onPostgres = { name: 'postgres', options: { type: 'postgres', url: postgres.url }, series, number: 'n' };
  await measure(closing, { ...onPostgres, run: (sql) => admin.query(sql) }, samples);
  const mariadb = await startMariadb(closing);
  const session = await openSession(closing, mariadb.url);
  const onMariadb = { name: 'mariadb', options: { type: 'mariadb', url: mariadb.url }, number: 'seq' };
  const sequence = (count: number): string => `seq_1_to_${count}`;
  await measure(closing, { ...onMariadb, series: sequence, run: (sql) => session.query(sql) }, samples);
  return { remembered, transactions, repeats, handlers: HANDLERS, unit: 'µs a transaction', ...samples.medians() };
});
