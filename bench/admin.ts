import type { INestApplicationContext } from '@nestjs/common';
import { createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import { OutboxAdmin, OutboxService } from '../lib/index.js';
import { createTestDatabase, series } from '../test/support/databases.js';
import { startApplication } from './support/app.js';
import { startMariadb } from './support/mariadb.js';
import { child, untilReady } from './support/child.js';
import type { Requeued } from './load/operator.js';
import { argument, percentile, round, smoke } from './support/measure.js';
import { writeAtRate, writeFor } from './support/paced.js';
import { startPostgres } from './support/postgres.js';
import { NoopTransport } from './support/relay.js';
import { PAYLOAD } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * An operator at tables with many rows: how long does each answer of `OutboxAdmin` take, how fast is a requeue of all dead
 * letters, and what do writers feel beside it?
 *   npm run bench -- admin [postgres|mariadb|mysql] [rows=10000000] [dead=1000000] [repeats=40]      mysql needs OUTBOX_TEST_MYSQL_URL
 */
const KINDS = ['postgres', 'mariadb', 'mysql'] as const;
const kind = KINDS.find((each) => each === (process.argv[2] ?? 'postgres')) ?? 'postgres';
const rows = argument(1, 'rows', 10_000_000);
const dead = argument(2, 'dead', 1_000_000);
const repeats = argument(3, 'repeats', 40);
/** Rows of one statement that fills a table. */
const CHUNK = 200_000;
const KEYS = 10_000;
const BUCKETS = 32;
/** Transactions a second beside the requeue. */
const RATE = 100;
/** Milliseconds for which they are measured alone. */
const CALM = smoke(20_000, 300);
/** Over which the messages were enqueued, evenly. */
const DAYS = 10;
/** Pages that are turned. */
const DEEP = smoke(50, 2);

const isPostgres = kind === 'postgres';
const [key, now] = isPostgres ? ['key', 'clock_timestamp()'] : ['`key`', 'utc_timestamp(6)'];
/** A UUIDv7 of the time of its enqueue, as the library makes it. */
const ID = isPostgres
  ? `(overlay(overlay(lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') placing '-' from 9 for 0) placing '-7000-8' from 14 for 0)
      || lpad(to_hex(fill), 3, '0') || '-' || lpad(to_hex(seq), 12, '0'))::uuid`
  : `concat(insert(lpad(lower(hex(floor(timestampdiff(microsecond, '1970-01-01', at) / 1000))), 12, '0'), 9, 0, '-'), '-7000-8',
      lpad(lower(hex(fill)), 3, '0'), '-', lpad(lower(hex(seq)), 12, '0'))`;
const seconds = (n: string): string => `interval ${isPostgres ? `'1 second' * (${n})` : `(${n}) second`}`;

/** Half of all messages are of one type, some of a rare one, and each is younger than the one before it. */
const CONTENT = `transport, bucket, id, topic, ${key}, type, payload, created_at`;
const VALUES = `0, seq % ${BUCKETS}, ${ID}, concat('topic-', seq % 20), concat('k', seq % ${KEYS}),
  case when seq % 100000 = 7 then 'order.rare' when seq % 2 = 0 then 'order.placed' else concat('order.', seq % 50) end, '${PAYLOAD}', at`;

interface Fill {
  readonly table: 'ready' | 'parked' | 'archive';
  readonly count: number;
  readonly columns: string;
  readonly values: string;
}
const rest = Math.max(0, rows - dead);
const FILLS: readonly Fill[] = [
  { table: 'ready', count: Math.floor(rest * 0.4), columns: '', values: '' },
  {
    table: 'archive',
    count: Math.floor(rest * 0.4),
    columns: ', seq, published_at',
    values: `, seq, at + ${seconds('1')}`,
  },
  {
    table: 'parked', // scheduled
    count: Math.floor(rest * 0.1),
    columns: ', seq, state, due_at',
    values: `, seq, 1, ${now} + ${seconds('1000000 + seq')}`,
  },
  {
    table: 'parked', // blocked behind what is dead
    count: Math.floor(rest * 0.1),
    columns: ', seq, state, blocking',
    values: `, 10000000 + seq, 3, true`,
  },
  {
    table: 'parked',
    count: dead,
    columns: ', seq, state, blocking, attempts, died_at, announced, last_error',
    values: `, seq, 4, seq % 10 = 0, 20, at, true, concat('broker said no to order ', seq, ': reason ', seq % 12)`,
  },
];

async function start(closing: Closing): Promise<string> {
  if (kind === 'mariadb') return (await startMariadb(closing)).url;
  if (isPostgres) return (await startPostgres(closing, { max_wal_size: '4GB' })).url;
  const database = await createTestDatabase(kind);
  closing.add(() => database.drop());
  const server = await createConnection(database.url);
  // As MariaDB's. Its binary log is on, and synced at every commit, as it is by default.
  for (const variable of ['innodb_buffer_pool_size', 'innodb_redo_log_capacity'])
    await server.query(`set global ${variable} = ${1 << 30}`);
  await server.end();
  return database.url;
}

async function fill(dataSource: DataSource): Promise<void> {
  for (const [n, { table, count, columns, values }] of FILLS.entries()) {
    for (let from = 0; from < count; from += CHUNK) {
      const some = Math.min(CHUNK, count - from);
      await dataSource.query(`insert into outbox_${table} (${CONTENT}${columns})
        select ${VALUES}${values} from (select ${n} as fill, seq, ${now} - ${seconds(`${DAYS * 86_400} * (1 - seq / ${count}.0)`)} as at
          from (select seq + ${from} as seq from ${series(kind, some)}) n) m`);
    }
  }
  for (const table of ['ready', 'parked', 'archive'])
    await dataSource.query(`${isPostgres ? 'vacuum analyze' : 'analyze table'} outbox_${table}`);
}

type Ask = (n: number) => Promise<unknown>;

/** What an operator asks, each time of another message where there is one. */
async function asks(application: INestApplicationContext): Promise<Record<string, Ask>> {
  const [admin, outbox] = [application.get(OutboxAdmin), application.get(OutboxService)];
  const idsOf = async (state: 'dead' | 'blocked' | 'ready' | 'published'): Promise<string[]> =>
    (await admin.find({ state }, { limit: 100 })).messages.map((message) => message.id);
  const [deadIds, blockedIds, readyIds, publishedIds] = await Promise.all(
    (['dead', 'blocked', 'ready', 'published'] as const).map(idsOf),
  );
  const one = (ids: readonly string[] | undefined, n: number): string => ids?.[n % ids.length] as string;
  const keyOf = (n: number): string => `k${(n * 7_919) % KEYS}`;
  return {
    find: () => admin.find(),
    findDead: () => admin.find({ state: 'dead' }),
    findReady: () => admin.find({ state: 'ready' }, { limit: 500 }),
    findPublished: () => admin.find({ state: 'published' }),
    findByIds: () => admin.find({ ids: [...(deadIds ?? []), ...(readyIds ?? []), ...(publishedIds ?? [])] }),
    findByKey: (n) => admin.find({ key: keyOf(n) }),
    findByKeyPublished: (n) => admin.find({ key: keyOf(n), state: 'published' }),
    findByType: () => admin.find({ type: 'order.rare' }),
    findByTopic: (n) => admin.find({ topic: `topic-${n % 20}`, state: 'ready' }),
    findNone: () => admin.find({ topic: 'nobody' }),
    findOld: () => admin.find({ olderThan: '9d' }),
    findYoung: () => admin.find({ youngerThan: '10s', state: ['ready', 'published'] }),
    show: (n) => admin.show(one(n % 2 ? readyIds : publishedIds, n)),
    explainDead: (n) => admin.explain(one(deadIds, n)),
    explainBlocked: (n) => admin.explain(one(blockedIds, n)),
    explainReady: (n) => admin.explain(one(readyIds, n)),
    failures: () => admin.failures(),
    failuresOfType: () => admin.failures({ type: 'order.placed' }),
    buckets: () => admin.buckets(),
    audit: () => admin.audit(),
    stats: () => outbox.stats(),
  };
}

async function p95(ask: Ask): Promise<number> {
  const took: number[] = [];
  for (let n = 0; n < repeats; n++) {
    const from = performance.now();
    await ask(n);
    took.push(performance.now() - from);
  }
  return round(percentile(took, 95), 1);
}

/** Page after page of what is dead: the last is as quick as the first. */
async function turnPages(admin: OutboxAdmin): Promise<number> {
  const took: number[] = [];
  let after: string | undefined;
  for (let n = 0; n < DEEP; n++) {
    const from = performance.now();
    const page = await admin.find({ state: 'dead' }, { limit: 500, ...(after !== undefined && { after }) });
    took.push(performance.now() - from);
    if (page.next === null) break;
    after = page.next;
  }
  return round(percentile(took, 95), 1);
}

bench('admin', async (closing) => {
  const url = await start(closing);
  const application = await startApplication(closing, url, {
    relay: false,
    transports: { default: new NoopTransport() },
    onPublished: 'archive',
  });
  const [admin, service] = [application.get(OutboxAdmin), application.get(OutboxService)];
  const filled = performance.now();
  await fill(application.get(DataSource));
  console.log(`filled in ${round((performance.now() - filled) / 1_000)} s`);

  const answers: Record<string, number> = {};
  for (const [name, ask] of Object.entries(await asks(application))) {
    answers[name] = await p95(ask);
    console.log(`${name} p95 ${answers[name]} ms`);
  }
  answers['pagesOfDead'] = await turnPages(admin);

  const operator = child(closing, 'load/operator.ts', [url]);
  let heard = (_: Requeued): void => undefined;
  const answer = new Promise<Requeued>((resolve) => (heard = resolve));
  await untilReady<Requeued>(operator, (requeued) => heard(requeued));
  const calm = await writeFor(service, RATE, CALM);
  let isOver = false;
  const beside = writeAtRate(service, RATE, () => isOver);
  operator.send('requeue');
  const { done, skipped, ms } = await answer;
  isOver = true;
  const busy = await beside;
  if (done !== dead) throw new Error(`requeued ${done} of ${dead}, skipped ${skipped}`);
  const [calmP99, busyP99] = [percentile(calm, 99), percentile(busy, 99)];
  return {
    database: kind,
    rows,
    dead,
    p95: answers,
    slowest: Math.max(...Object.values(answers)),
    requeueRowsPerSecond: round((done / ms) * 1_000),
    writers: {
      rate: RATE,
      calmP50: round(percentile(calm, 50), 2),
      busyP50: round(percentile(busy, 50), 2),
      calmP99: round(calmP99, 2),
      busyP99: round(busyP99, 2),
      p99Ratio: round(busyP99 / calmP99, 2),
    },
  };
});
