import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { DataSource, type EntityManager } from 'typeorm';
import { OutboxService, type OutboxOptions } from '../lib/index.js';
import { APPLICATION, OrderPlaced, startApplication } from './support/app.js';
import { argument, Samples, timed } from './support/measure.js';
import { adminClient, SLOW_FLUSH, startPostgres } from './support/postgres.js';
import { NoopTransport } from './support/relay.js';
import { PAYLOAD } from './support/rows.js';
import { bench } from './support/run.js';
import { cpuOfBackends } from './support/server-cpu.js';

/**
 * What an enqueue costs the business transaction (INSERT, UPDATE, COMMIT; a flush takes 0.8 ms): the throughput of 8
 * writers with one message each, and the server's CPU for 10 messages in one transaction.
 *   npm run bench -- enqueue [transactions=20000] [repeats=5]
 */
const transactions = argument(0, 'transactions', 20_000);
const repeats = argument(1, 'repeats', 5);
const WRITERS = 8;
const ACCOUNTS = 100_000;

type Extra = (manager: EntityManager, account: number) => Promise<unknown>;

async function business(dataSource: DataSource, extra?: Extra): Promise<void> {
  const account = 1 + Math.floor(Math.random() * ACCOUNTS);
  await dataSource.transaction(async (manager) => {
    await manager.query('insert into orders (customer, amount, note) values ($1, 5, $2)', [account, 'hello']);
    await manager.query('update accounts set balance = balance + 1 where id = $1', [account]);
    await extra?.(manager, account);
  });
}

/** Ten messages as one writes them without an outbox: one INSERT of the columns that nobody can do without. */
const TEN_BARE_ROWS = `insert into plain_messages (id, topic, key, type, payload) values ${Array.from(
  { length: 10 },
  (_, row) => `(${[1, 2, 3, 4, 5].map((column) => `$${row * 5 + column}`).join(', ')})`,
).join(', ')}`;
const tenBareRows: Extra = (manager, account) =>
  manager.query(
    TEN_BARE_ROWS,
    Array.from({ length: 10 }, (_, i) => [
      randomUUID(),
      'orders',
      `order-${account}-${i}`,
      'order.placed',
      PAYLOAD,
    ]).flat(),
  );

interface Cost {
  readonly perSecond: number;
  /** Microseconds a transaction. */
  readonly node: number;
  readonly server: number;
}

async function run(
  admin: pg.Client,
  dataSource: DataSource,
  writers: number,
  count: number,
  extra?: Extra,
): Promise<Cost> {
  await admin.query('truncate outbox_ready, orders, plain_messages');
  await Promise.all(Array.from({ length: writers }, () => business(dataSource, extra))); // opens the connections
  const before = await cpuOfBackends(admin, APPLICATION);
  let left = count;
  const { ms, cpu } = await timed(() =>
    Promise.all(
      Array.from({ length: writers }, async () => {
        while (left-- > 0) await business(dataSource, extra);
      }),
    ),
  );
  const server = (await cpuOfBackends(admin, APPLICATION)) - before;
  await complete(admin, count + writers, extra);
  return { perSecond: (count / ms) * 1_000, node: cpu / count, server: server / count };
}

/** Nothing is fast that did not happen. */
async function complete(admin: pg.Client, expected: number, extra: Extra | undefined): Promise<void> {
  const { rows } = await admin.query(
    'select (select count(*) from orders) as orders, (select count(*) from outbox_ready) as ready',
  );
  const { orders, ready } = rows[0];
  if (Number(orders) !== expected) throw new Error(`${orders} of ${expected} orders were committed.`);
  if (extra !== undefined && Number(ready) % expected !== 0)
    throw new Error(`${ready} messages of ${expected} orders.`);
}

bench('enqueue', async (closing) => {
  const server = await startPostgres(closing, { ...SLOW_FLUSH, autovacuum: 'off' });
  const admin = await adminClient(closing, server.url);
  await admin.query(`create table orders (id bigint generated always as identity primary key, customer int, amount int, note text, created_at timestamptz default now());
    create table plain_messages (seq bigint generated always as identity primary key, id uuid not null, topic text not null, key text,
      type text not null, payload bytea, created_at timestamptz not null default now());
    create table accounts (id int primary key, balance bigint not null) with (fillfactor = 70);
    insert into accounts select g, 0 from generate_series(1, ${ACCOUNTS}) g`);
  const start = async (options: Partial<OutboxOptions>): Promise<{ dataSource: DataSource; outbox: OutboxService }> => {
    const all = { transports: { default: new NoopTransport() }, relay: false, ...options };
    const application = await startApplication(closing, server.url, all, WRITERS);
    return { dataSource: application.get(DataSource), outbox: application.get(OutboxService) };
  };
  const { dataSource, outbox } = await start({});
  const polling = await start({ wakeUp: 'poll' });
  const one: Extra = (manager, account) => outbox.enqueue(new OrderPlaced(`order-${account}`), { manager });
  const onePolling: Extra = (manager, account) =>
    polling.outbox.enqueue(new OrderPlaced(`order-${account}`), { manager });
  const ten: Extra = (manager, account) =>
    outbox.enqueue(
      Array.from({ length: 10 }, (_, i) => new OrderPlaced(`order-${account}-${i}`)),
      { manager },
    );

  const samples = new Samples();
  await run(admin, dataSource, WRITERS, Math.min(transactions, 2_000), one); // code that runs for the first time is slow
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const bare = await run(admin, dataSource, WRITERS, transactions);
    const enqueue = await run(admin, dataSource, WRITERS, transactions, one);
    const poll = await run(admin, polling.dataSource, WRITERS, transactions, onePolling);
    const bareAlone = await run(admin, dataSource, 1, transactions >> 2);
    const tenBare = await run(admin, dataSource, 1, transactions >> 2, tenBareRows);
    const tenAlone = await run(admin, dataSource, 1, transactions >> 2, ten);
    samples.add({
      barePerSecond: bare.perSecond,
      enqueuePerSecond: enqueue.perSecond,
      ratio: enqueue.perSecond / bare.perSecond,
      ratioPolling: poll.perSecond / bare.perSecond,
      bareNodeMicros: bare.node,
      enqueueNodeMicros: enqueue.node,
      bareServerMicros: bare.server,
      enqueueServerMicros: enqueue.server,
      tenMessagesServerRatio: tenAlone.server / tenBare.server,
      tenMessagesServerRatioToNone: tenAlone.server / bareAlone.server,
      tenBareRowsServerMicros: tenBare.server,
      tenBareRowsNodeMicros: tenBare.node,
      bareAloneServerMicros: bareAlone.server,
      tenMessagesServerMicros: tenAlone.server,
      bareAloneNodeMicros: bareAlone.node,
      tenMessagesNodeMicros: tenAlone.node,
    });
  }
  return {
    transactions,
    repeats,
    writers: WRITERS,
    flushMs: 0.8,
    ...samples.medians(),
    ratioRange: samples.range('ratio'),
  };
});
