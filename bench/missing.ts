import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import amqp from 'amqplib';
import type pg from 'pg';
import type { RelayLoops } from '../lib/relay/relay-loops.js';
import { rabbitmq } from '../lib/transports/rabbitmq/rabbitmq.js';
import { argument, round } from './support/measure.js';
import { adminClient, startPostgres } from './support/postgres.js';
import { benchRelay, connect, createTables, type BenchRelay } from './support/relay.js';
import { empty, fillReady } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * A backlog for a queue that does not exist, and behind it messages for one that does, over RabbitMQ and PostgreSQL: how fast do
 * the others go once their turn has come, beside what was put off, and how fast is that published once its queue is there?
 *   npm run bench -- missing [rows of the missing queue=1000000] [messages for the other=60000]
 * Uses queues of its own on the server of OUTBOX_TEST_RABBITMQ_URL, or on loopback.
 */
const rows = argument(0, 'rows of the missing queue', 1_000_000);
const others = argument(1, 'messages for the other', 60_000);
const url = process.env['OUTBOX_TEST_RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672';
const KEYS = 10_000;
/** Milliseconds without a word of progress, after which a run is given up. */
const PATIENCE = 180_000;

interface Broker {
  readonly there: string;
  readonly missing: string;
  /** From now on it is there. */
  make(): Promise<void>;
  /** Nothing in them is kept. */
  count(queue: string): Promise<number>;
}

async function open(closing: Closing): Promise<Broker> {
  const name = `outbox-bench-${randomBytes(5).toString('hex')}`;
  const connection = await amqp.connect(url);
  connection.on('error', () => undefined);
  closing.add(() => connection.close());
  const channel = await connection.createChannel();
  const declare = async (queue: string): Promise<void> => {
    await channel.assertQueue(queue, { durable: true });
    closing.add(() => channel.deleteQueue(queue));
  };
  const [there, missing] = [name, `${name}-missing`];
  await declare(there);
  return {
    there,
    missing,
    make: () => declare(missing),
    count: async (queue) => (await channel.purgeQueue(queue)).messageCount,
  };
}

const published = ({ dispatcher }: BenchRelay): number => {
  const [loops] = dispatcher.relays as readonly Partial<RelayLoops>[];
  return loops?.relay?.counts.published ?? 0;
};

/** @returns milliseconds from when the first of them was published until all of `count` are */
async function goThrough(relay: BenchRelay, count: number): Promise<{ first: number; all: number }> {
  const [began, before] = [performance.now(), published(relay)];
  let [first, last, moved] = [Infinity, 0, began];
  for (let now = began; last < count; now = performance.now()) {
    const done = published(relay) - before;
    if (done > 0) first = Math.min(first, now - began);
    if (done > last) moved = now;
    if (now - moved > PATIENCE) throw new Error(`${done} of ${count} were published, and then none for minutes.`);
    last = done;
    await delay(5);
  }
  return { first, all: performance.now() - began };
}

const perSecond = (count: number, { first, all }: { first: number; all: number }): number =>
  round((count / (all - first)) * 1_000);

bench('missing', async (closing) => {
  const broker = await open(closing);
  const server = await startPostgres(closing, { max_wal_size: '4GB' });
  const dataSource = await connect(closing, server.url);
  await createTables(dataSource);
  const admin: pg.Client = await adminClient(closing, server.url);
  const good = { rows: others, keys: KEYS, topic: broker.there, prefix: 'good ' };

  const start = async (): Promise<BenchRelay> => {
    const relay = await benchRelay(dataSource, { default: rabbitmq({ url }) });
    closing.add(() => relay.close());
    await relay.dispatcher.start();
    return relay;
  };
  await fillReady(admin, good);
  const alone = await start();
  const unhindered = perSecond(others, await goThrough(alone, others));
  await alone.close();
  await empty(admin);

  await fillReady(admin, { rows, keys: KEYS, topic: broker.missing, prefix: 'missing ' });
  await fillReady(admin, good);
  const relay = await start();
  const behind = await goThrough(relay, others);
  const put = async (): Promise<number> =>
    Number((await admin.query<{ n: string }>('select count(*) n from outbox_parked')).rows[0]?.n);
  const parked = await put();
  await fillReady(admin, { ...good, prefix: 'beside ' });
  const beside = await goThrough(relay, others);
  const attempts = await admin.query<{ most: number }>('select max(attempts) most from outbox_parked');

  await broker.make();
  const freed = await goThrough(relay, rows);
  const arrived = [await broker.count(broker.there), await broker.count(broker.missing)];
  if (arrived[0] !== 3 * others || arrived[1] !== rows) throw new Error(`${arrived.join(' and ')} arrived.`);
  const rates = { unhindered, behind: perSecond(others, behind), beside: perSecond(others, beside) };
  return {
    rows,
    others,
    parked,
    mostAttempts: attempts.rows[0]?.most ?? null,
    alonePerSecond: rates.unhindered,
    firstBehindAfterMs: round(behind.first),
    behindPerSecond: rates.behind,
    behindRatio: round(rates.behind / rates.unhindered, 2),
    besidePerSecond: rates.beside,
    besideRatio: round(rates.beside / rates.unhindered, 2),
    firstFreedAfterMs: round(freed.first),
    freedPerSecond: perSecond(rows, freed),
  };
});
