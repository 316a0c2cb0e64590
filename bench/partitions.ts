import { setTimeout as pause } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import type { OutboxEventMap } from '../lib/index.js';
import type { OutboxHooks } from '../lib/observe/events.js';
import { resolveOptions } from '../lib/options/resolve.js';
import { OutboxPartitionMaintainer } from '../lib/partitions/maintainer.js';
import { partitionAt, type OwnPartition } from '../lib/store/partitions/period.js';
import { createTestDatabase, series } from '../test/support/databases.js';
import { startMariadb } from './support/mariadb.js';
import { argument, percentile, round, Samples, smoke } from './support/measure.js';
import { startPostgres } from './support/postgres.js';
import { benchRelay, connect, NoopTransport, type BenchRelay } from './support/relay.js';
import { PAYLOAD, PAYLOAD_BYTES } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * How long does the drop of a month take, and what do those wait who write meanwhile: an application that enqueues, and a relay that
 * puts what it published into the archive?
 *   npm run bench -- partitions [postgres|mariadb|mysql] [rows=4000000]      mysql needs OUTBOX_TEST_MYSQL_URL
 */
const KINDS = ['postgres', 'mariadb', 'mysql'] as const;
const kind = KINDS.find((each) => each === (process.argv[2] ?? 'postgres')) ?? 'postgres';
const rows = argument(1, 'rows', 4_000_000);
/** Full months before this one; each but the last is dropped once. */
const MONTHS = 8;
const ROUNDS = smoke(MONTHS - 1, 1);
/** Milliseconds of each window, calm or with a drop in its middle. */
const WINDOW = smoke(6_000, 100);
/** Between two writes of one writer. */
const BETWEEN = 2;
const PERIOD = 'month';

const [key, id, now] =
  kind === 'postgres' ? ['key', 'gen_random_uuid()', 'clock_timestamp()'] : ['`key`', 'uuid()', 'utc_timestamp(6)'];
const CONTENT = `bucket, id, topic, type, ${key}, payload`;
const VALUES = `0, ${id}, 'orders', 'order.placed', 'k', '${PAYLOAD}'`;
const WRITES = {
  enqueue: `insert into outbox_ready (${CONTENT}) values (${VALUES})`,
  archive: `insert into outbox_archive (seq, published_at, ${CONTENT}) values (1, ${now}, ${VALUES})`,
} as const;

async function open(closing: Closing): Promise<{ dataSource: DataSource; relay: BenchRelay }> {
  const url = await start(closing);
  const dataSource = await connect(closing, url);
  const relay = await benchRelay(dataSource, { default: new NoopTransport() }, { partitions: { period: PERIOD } });
  closing.add(() => relay.close());
  return { dataSource, relay };
}

async function start(closing: Closing): Promise<string> {
  if (kind === 'mariadb') return (await startMariadb(closing)).url;
  if (kind === 'postgres') return (await startPostgres(closing, { max_wal_size: '8GB' })).url;
  const database = await createTestDatabase(kind);
  closing.add(() => database.drop());
  return database.url;
}

/** Those of the past, oldest first, then this one. */
function months(): OwnPartition[] {
  const found = [partitionAt(Date.now(), PERIOD)];
  while (found.length <= MONTHS) found.unshift(partitionAt((found[0] as OwnPartition).from - 1, PERIOD));
  return found;
}

/** The same number of rows for each past month, in one statement a month. */
async function fill(dataSource: DataSource, past: readonly OwnPartition[]): Promise<void> {
  const each = Math.floor(rows / past.length);
  for (const { from, to } of past) {
    const step = Math.floor(((to - from) * 1_000) / each);
    const [time, source, n] =
      kind === 'postgres'
        ? [
            `to_timestamp(${from} / 1000.0) + n * interval '${step} microseconds'`,
            `generate_series(0, ${each - 1}) n`,
            'n',
          ]
        : [
            `timestamp'1970-01-01 00:00:00' + interval ${from / 1_000} second + interval (seq - 1) * ${step} microsecond`,
            series(kind, each),
            'seq',
          ];
    await dataSource.query(`insert into outbox_archive (seq, published_at, ${CONTENT})
      select ${n}, ${time}, 0, ${id}, 'orders', 'order.placed', concat('k', ${n} % 10000), '${PAYLOAD}' from ${source}`);
  }
}

/** How long each write took, in milliseconds, while `work` went on in the middle of a window. */
async function beside(writers: Writers, work: () => Promise<unknown>): Promise<Record<keyof typeof WRITES, number[]>> {
  const took: Record<keyof typeof WRITES, number[]> = { enqueue: [], archive: [] };
  let isOver = false;
  const writing = Object.entries(writers).map(async ([name, write]) => {
    while (!isOver) {
      const from = performance.now();
      await write();
      took[name as keyof typeof WRITES].push(performance.now() - from);
      await pause(BETWEEN);
    }
  });
  await pause(WINDOW / 2);
  await work();
  await pause(WINDOW / 2);
  isOver = true;
  await Promise.all(writing);
  return took;
}
type Writers = Record<keyof typeof WRITES, () => Promise<unknown>>;

/** When the maintainer said that a drop begins. */
class Begun implements OutboxHooks {
  at = 0;
  readonly has = (): boolean => true;
  readonly emit = (name: keyof OutboxEventMap): void => {
    if (name === 'partitionChange') this.at = performance.now();
  };
}

async function dropOldest(maintainer: OutboxPartitionMaintainer, hooks: Begun, oldest: OwnPartition): Promise<number> {
  const { dropped, notDone } = await maintainer.runOnce({ retention: Date.now() - oldest.to - 60_000 });
  const took = performance.now() - hooks.at;
  if (dropped.join() !== oldest.name) throw new Error(`dropped ${dropped.join()}: ${JSON.stringify(notDone)}`);
  return took;
}

bench('partitions', async (closing) => {
  const { dataSource, relay } = await open(closing);
  const hooks = new Begun();
  const { partitions: options } = resolveOptions({
    transports: { default: new NoopTransport() },
    partitions: { period: PERIOD },
    retention: { published: '3650d' },
  });
  const maintainer = new OutboxPartitionMaintainer(relay.store, hooks, options);
  const all = months();
  await relay.store.partitions?.maintain(1_000, async (session) => {
    for (const partition of all) await session.create(partition);
  });
  const past = all.slice(0, -1);
  await fill(dataSource, past);
  if (kind === 'postgres') await dataSource.query('vacuum analyze outbox_archive');
  await maintainer.runOnce();
  // As a relay of any length has: statements that the server has seen before.
  const writers: Writers = {
    enqueue: () => dataSource.query(WRITES.enqueue),
    archive: () => dataSource.query(WRITES.archive),
  };
  await beside(writers, async () => {});
  const samples = new Samples();
  for (const oldest of past.slice(0, ROUNDS)) {
    const calm = await beside(writers, async () => {});
    let dropMs = Number.NaN;
    const drop = await beside(writers, async () => {
      dropMs = await dropOldest(maintainer, hooks, oldest);
    });
    const figures: Record<string, number> = { dropMs };
    for (const name of ['enqueue', 'archive'] as const) {
      for (const [what, values] of [
        ['Calm', calm[name]],
        ['Drop', drop[name]],
      ] as const) {
        figures[`${name}${what}P99`] = percentile(values, 99);
        figures[`${name}${what}Max`] = Math.max(...values);
      }
      figures[`${name}P99Ratio`] = (figures[`${name}DropP99`] as number) / (figures[`${name}CalmP99`] as number);
    }
    samples.add(figures);
  }
  const rowsPerMonth = Math.floor(rows / past.length);
  return {
    kind,
    rows,
    rowsPerMonth,
    payloadBytes: PAYLOAD_BYTES,
    drops: ROUNDS,
    windowMs: round(WINDOW),
    unit: 'ms',
    ...samples.medians(),
  };
});
