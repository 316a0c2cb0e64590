import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import type { Published } from './load/held-relay.js';
import { Latencies } from './load/latencies.js';
import type { Committed } from './load/writer.js';
import { child, untilReady } from './support/child.js';
import { openSession, startMariadb } from './support/mariadb.js';
import { argument, percentile, round, smoke } from './support/measure.js';
import { adminClient, startPostgres } from './support/postgres.js';
import { connect, createTables, untilEmpty } from './support/relay.js';
import { fillReady, PAYLOAD, PAYLOAD_BYTES } from './support/rows.js';
import { bench, Closing } from './support/run.js';

/**
 * A load of half the drain while somebody holds a snapshot, so that no dead row can be removed: the last minute by the first,
 * and how long a take-over takes at the end.
 *   npm run bench -- held [minutes=10] [messages a second=0: half of the drain, 8,000 at most]
 */
if (process.argv[2] === '--minutes') process.argv.splice(2, 1);
const minutes = argument(0, 'minutes', 10);
const wanted = argument(1, 'messages a second', 0);
/** Messages before the load, by which the drain is measured. */
const BACKLOG = smoke(100_000, 2_000);
/** What one writer can, and what fits into memory in ten minutes. */
const MOST = 8_000;
const BUCKETS = 32;
/** Milliseconds. */
const MINUTE = smoke(60_000, 1_000);
const LEASE = 30_000;
/** As it is when nobody says anything. */
const POLL = 1_000;
const LONGEST_TAKE_OVER = 120_000;

interface Server {
  readonly dataSource: DataSource;
  readonly url: string;
  fill(): Promise<void>;
  /** Nothing of the drain is left; from now on nothing is removed. */
  hold(): Promise<void>;
}

async function postgres(closing: Closing): Promise<Server> {
  const { url } = await startPostgres(closing, { max_wal_size: '2GB', wal_level: 'replica', max_wal_senders: '0' });
  const dataSource = await connect(closing, url);
  await createTables(dataSource);
  const admin = await adminClient(closing, url);
  const holder: pg.Client = await adminClient(closing, url);
  return {
    dataSource,
    url,
    fill: () => fillReady(admin, { rows: BACKLOG, keys: 10_000 }),
    async hold() {
      await admin.query('vacuum outbox_ready');
      await holder.query('begin isolation level repeatable read');
      await holder.query('select count(*) from outbox_meta');
    },
  };
}

async function mariadb(closing: Closing): Promise<Server> {
  const { url } = await startMariadb(closing);
  const dataSource = await connect(closing, url);
  await createTables(dataSource);
  const holder = await openSession(closing, url);
  return {
    dataSource,
    url,
    async fill() {
      await dataSource.query(
        `insert into outbox_ready (id, topic, \`key\`, type, payload)
         select concat('01938f00-0000-7000-8000-', lpad(lower(hex(seq)), 12, '0')), 'orders', concat('k', seq % 10000),
           'order.placed', ? from seq_1_to_${BACKLOG}`,
        [PAYLOAD],
      );
      await delay(2_500); // a backlog is older than the moment for which a floor waits
    },
    async hold() {
      await holder.query('set session transaction isolation level repeatable read');
      await holder.query('start transaction with consistent snapshot');
      await holder.query('select count(*) from outbox_meta');
    },
  };
}

/** A relay in a process of its own, and what it told last. */
async function startRelay(closing: Closing, url: string, latencies: Latencies) {
  const relay = child(closing, 'load/held-relay.ts', [url]);
  const told = { messages: 0, buckets: 0 };
  await untilReady<Published>(relay, ({ messages, buckets, sampled }) => {
    Object.assign(told, { messages, buckets });
    latencies.saw(sampled);
  });
  return { relay, told };
}

/** Milliseconds from the death of one relay until another one, which starts then, has published of every bucket. */
async function takeOver(closing: Closing, url: string, kill: () => void): Promise<number> {
  const from = performance.now();
  kill();
  const { told } = await startRelay(closing, url, new Latencies());
  while (told.buckets < BUCKETS) {
    if (performance.now() - from > LONGEST_TAKE_OVER) return Infinity;
    await delay(20);
  }
  return performance.now() - from;
}

async function measure(closing: Closing, open: (closing: Closing) => Promise<Server>) {
  const { dataSource, url, fill, hold } = await open(closing);
  await fill();
  const latencies = new Latencies();
  const begun = performance.now();
  const { relay, told } = await startRelay(closing, url, latencies);
  while (told.messages === 0) await delay(5);
  const connected = performance.now();
  await untilEmpty(dataSource);
  const drainPerSecond = (BACKLOG / (performance.now() - connected)) * 1_000;
  await hold();
  const rate = wanted || Math.min(MOST, Math.round(drainPerSecond / 2));
  console.log(
    `drain ${round(drainPerSecond)} messages/s (${round(connected - begun)} ms to begin); load ${rate} messages/s`,
  );
  const writer = child(closing, 'load/writer.ts', [url, 'orders', String(rate)]);
  let committed = 0;
  await untilReady<Committed>(writer, ({ messages, sampled }) => {
    committed = messages;
    latencies.committed(sampled);
  });
  const all: { perSecond: number; committedPerSecond: number; p50: number; p99: number }[] = [];
  for (let minute = 1; minute <= minutes; minute += 1) {
    latencies.take();
    const [before, wrote, from] = [told.messages, committed, performance.now()];
    await delay(MINUTE);
    const seconds = (performance.now() - from) / 1_000;
    const values = latencies.take();
    all.push({
      perSecond: round((told.messages - before) / seconds),
      committedPerSecond: round((committed - wrote) / seconds),
      p50: round(percentile(values, 50), 1),
      p99: round(percentile(values, 99), 1),
    });
    console.log(`${minute} min: ${JSON.stringify(all.at(-1))}`);
  }
  relay.removeAllListeners('exit');
  const took = await takeOver(closing, url, () => relay.kill('SIGKILL'));
  const [first, last] = [all[0], all.at(-1)];
  if (first === undefined || last === undefined) throw new Error('minutes: must be 1 or more');
  return {
    drainPerSecond: round(drainPerSecond),
    wantedPerSecond: rate,
    committed,
    throughputRatio: round(last.perSecond / first.perSecond, 3),
    p99Ratio: round(last.p99 / first.p99, 2),
    takeOverMs: round(took),
    takeOverInTime: took <= LEASE + 2 * POLL,
    minutes: all,
  };
}

bench('held', async (parent) => {
  const results: Record<string, unknown> = {};
  for (const [name, open] of Object.entries({ postgres, mariadb })) {
    const closing = new Closing(); // one server at a time
    parent.add(() => closing.all());
    results[name] = await measure(closing, open);
    await closing.all();
    console.log(JSON.stringify({ [name]: results[name] }));
  }
  return { minutes, payloadBytes: PAYLOAD_BYTES, ...results };
});
