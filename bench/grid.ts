import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { DataSource, type EntityManager } from 'typeorm';
import { OutboxService } from '../lib/index.js';
import type { RelayLoops } from '../lib/relay/relay-loops.js';
import { APPLICATION, startApplication } from './support/app.js';
import { CellResults, combinations, type Cell } from './support/cells.js';
import { argument, median, round, smoke, timed } from './support/measure.js';
import { adminClient, startPostgres } from './support/postgres.js';
import { benchRelay, connect, createTables, NoopTransport, untilEmpty, type BenchRelay } from './support/relay.js';
import { empty, fillReady, payloadOf } from './support/rows.js';
import { bench, Closing } from './support/run.js';
import { cpuOfBackends } from './support/server-cpu.js';

/**
 * Throughput by workers, batch and payload, on PostgreSQL. `consume`: a backlog that appears at once; a worker is a relay, a batch
 * its `batchSize`. `enqueue`: a worker is a writer, a batch the messages of its transaction. `mixed`: writers, while one relay publishes.
 *   npm run bench -- grid [messages of a cell=50000] [repeats=3] [file=none] [consume | enqueue | mixed]
 * A cell whose result stands in the file is not measured again: a run that was ended goes on.
 */
const MODES = ['consume', 'enqueue', 'mixed'] as const;
type Mode = (typeof MODES)[number];
const only = MODES.filter((mode) => process.argv.includes(mode));
const file = process.argv.slice(4).find((word) => !MODES.includes(word as Mode));
const messages = argument(0, 'messages of a cell', 50_000);
const repeats = argument(1, 'repeats', 3);
/** Of what a cell measures, before it: code that runs for the first time is slow. */
const WARM_UP = 0.1;
const KEYS = 10_000;
const SAMPLE_EVERY = 50;
const AXES = {
  workers: smoke([1, 2, 4], [1, 2]),
  batch: smoke([1, 10, 100, 500, 1_000, 5_000], [10]),
  payloadBytes: smoke([100, 1_000, 10_000], [100]),
};
/** A transaction of 5,000 messages is nobody's. */
const MOST_IN_TRANSACTION = 100;

interface Bench {
  readonly dataSource: DataSource;
  readonly admin: pg.Client;
  readonly application: { readonly dataSource: DataSource; readonly outbox: OutboxService };
}

interface Measured {
  readonly perSecond: number;
  /** Microseconds of CPU a message: of this process, and of the backends that work for it. */
  readonly nodeMicros: number;
  readonly serverMicros: number;
  /** Backends that were at work when they were looked at: the mean. */
  readonly activeBackends: number;
}

const NAMES = ['nestjs-outbox', APPLICATION];

/** Runs the work, and looks meanwhile at who works. */
async function measured(admin: pg.Client, count: number, work: () => Promise<unknown>): Promise<Measured> {
  const cpu = async (): Promise<number> =>
    (await Promise.all(NAMES.map((name) => cpuOfBackends(admin, name)))).reduce((sum, micros) => sum + micros, 0);
  const active: number[] = [];
  let isOver = false;
  const before = await cpu();
  const look = async (): Promise<void> => {
    while (!isOver) {
      const { rows } = await admin.query<{ n: number }>(
        `select count(*)::int n from pg_stat_activity where application_name = any($1) and state = 'active'`,
        [NAMES],
      );
      active.push(rows[0]?.n ?? 0);
      await delay(SAMPLE_EVERY);
    }
  };
  const looking = look();
  const took = await timed(work);
  isOver = true;
  await looking;
  const server = (await cpu()) - before;
  return {
    perSecond: (count / took.ms) * 1_000,
    nodeMicros: took.cpu / count,
    serverMicros: server / count,
    activeBackends: active.reduce((sum, n) => sum + n, 0) / active.length,
  };
}

const loopsOf = (relays: readonly BenchRelay[]): Partial<RelayLoops>[] =>
  relays.flatMap(({ dispatcher }) => dispatcher.relays as readonly Partial<RelayLoops>[]);
const published = (relays: readonly BenchRelay[]): number =>
  loopsOf(relays).reduce((sum, { relay }) => sum + (relay?.counts.published ?? 0), 0);

/** Relays that share all buckets evenly, or nearly so. */
async function startRelays(
  { dataSource }: Bench,
  closing: Closing,
  count: number,
  batchSize: number,
): Promise<BenchRelay[]> {
  const one = (): Promise<BenchRelay> => benchRelay(dataSource, { default: new NoopTransport() }, { batchSize });
  const relays = await Promise.all(Array.from({ length: count }, one));
  for (const relay of relays) closing.add(() => relay.close());
  await Promise.all(relays.map(({ dispatcher }) => dispatcher.start()));
  const least = Math.floor(32 / count);
  while (!loopsOf(relays).every(({ relay }) => (relay?.open.size ?? 0) >= least)) await delay(10);
  return relays;
}

/** Told that there is work, as a wake-up would. */
async function until(relays: readonly BenchRelay[], count: number, dataSource: DataSource): Promise<void> {
  for (const loops of loopsOf(relays)) loops.nudge?.('ready', 0);
  while (published(relays) < count) await delay(5);
  await untilEmpty(dataSource);
}

async function consume(on: Bench, relays: readonly BenchRelay[], cell: Cell, count: number): Promise<Measured> {
  const before = published(relays);
  const commit = (sql: string): Promise<unknown> => on.admin.query(sql);
  await fillReady(on.admin, { rows: count, keys: KEYS, payload: payloadOf(Number(cell['payloadBytes'])), commit });
  return measured(on.admin, count, () => until(relays, before + count, on.dataSource));
}

async function write({ application }: Bench, cell: Cell, count: number): Promise<void> {
  const batch = Number(cell['batch']);
  const note = payloadOf(Number(cell['payloadBytes']));
  let left = Math.ceil(count / batch);
  const transaction = (manager: EntityManager): Promise<unknown> =>
    application.outbox.enqueue(
      Array.from({ length: batch }, (_, n) => ({
        topic: 'orders',
        type: 'order.placed',
        key: `k${(left * batch + n) % KEYS}`,
        payload: note,
      })),
      { manager },
    );
  const writer = async (): Promise<void> => {
    while (left-- > 0) await application.dataSource.transaction(transaction);
  };
  await Promise.all(Array.from({ length: Number(cell['workers']) }, writer));
}

async function measure(on: Bench, closing: Closing, cell: Cell): Promise<Cell> {
  await empty(on.admin);
  const mode = cell['mode'] as Mode;
  const batch = Number(cell['batch']);
  const relays =
    mode === 'enqueue'
      ? []
      : await startRelays(on, closing, mode === 'mixed' ? 1 : Number(cell['workers']), mode === 'mixed' ? 500 : batch);
  const one = async (count: number): Promise<Measured> => {
    if (mode === 'consume') return consume(on, relays, cell, count);
    const whole = Math.ceil(count / batch) * batch;
    const before = published(relays);
    const took = await measured(on.admin, whole, async () => {
      await write(on, cell, whole);
      if (mode === 'mixed') await until(relays, before + whole, on.dataSource);
    });
    if (mode === 'enqueue') await complete(on.admin, whole);
    return took;
  };
  await one(Math.ceil(messages * WARM_UP));
  const all: Measured[] = [];
  for (let repeat = 0; repeat < repeats; repeat += 1) all.push(await one(messages));
  const of = (name: keyof Measured, digits = 0): number => round(median(all.map((each) => each[name])), digits);
  const speeds = all.map(({ perSecond }) => perSecond);
  return {
    ...cell,
    perSecond: of('perSecond'),
    slowest: round(Math.min(...speeds)),
    fastest: round(Math.max(...speeds)),
    nodeMicros: of('nodeMicros', 1),
    serverMicros: of('serverMicros', 1),
    activeBackends: of('activeBackends', 2),
  };
}

/** What was enqueued is there; the next one begins with an empty table. */
async function complete(admin: pg.Client, expected: number): Promise<void> {
  const { rows } = await admin.query<{ n: number }>('select count(*)::int n from outbox_ready');
  if (rows[0]?.n !== expected) throw new Error(`${rows[0]?.n} of ${expected} messages were committed.`);
  await empty(admin);
}

bench('grid', async (parent) => {
  const server = await startPostgres(parent);
  const dataSource = await connect(parent, server.url);
  await createTables(dataSource);
  const admin = await adminClient(parent, server.url);
  const options = { transports: { default: new NoopTransport() }, relay: false };
  const application = await startApplication(parent, server.url, options, Math.max(...AXES.workers));
  const on: Bench = {
    dataSource,
    admin,
    application: { dataSource: application.get(DataSource), outbox: application.get(OutboxService) },
  };
  const cells = combinations({ mode: only.length > 0 ? only : MODES, ...AXES }).filter(
    ({ mode, batch }) => mode === 'consume' || Number(batch) <= MOST_IN_TRANSACTION,
  );
  const results = new CellResults(['mode', ...Object.keys(AXES)], file);
  for (const cell of cells.filter((each) => !results.has(each))) {
    const closing = new Closing();
    parent.add(() => closing.all());
    const result = await measure(on, closing, cell);
    await closing.all();
    results.add(result);
    console.log(JSON.stringify(result));
  }
  return { messages, repeats, cells: results.of(cells) };
});
