import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { TELL_EVERY, type FleetWord, type Span, type Work } from './load/fleet-words.js';
import { now } from './load/latencies.js';
import { child, untilReady } from './support/child.js';
import { startMariadb } from './support/mariadb.js';
import { argument, median, round, smoke } from './support/measure.js';
import { adminClient, startPostgres } from './support/postgres.js';
import { connect, createTables, untilEmpty } from './support/relay.js';
import { fillReady, PAYLOAD } from './support/rows.js';
import { bench, Closing } from './support/run.js';
import { cpuOfBackends, cpuOfProcess } from './support/server-cpu.js';

/**
 * 1, 2, 4 and 8 relay processes on one database, and some that join, leave, are killed and freeze: how long until the buckets are
 * even, whether two ever published of one bucket, and how fast a backlog is drained.
 *   npm run bench -- fleet [most relays=8] [messages a second=500] [backlog=200000] [repeats of a drain=3] [postgres | mariadb]
 */
const NAMES = ['postgres', 'mariadb'] as const;
const only = NAMES.filter((name) => process.argv.includes(name));
process.argv = process.argv.filter((word) => !only.includes(word as 'postgres'));
const most = argument(0, 'most relays', 8);
const rate = argument(1, 'messages a second', 500);
/** What one statement makes visible at once. */
const backlog = argument(2, 'backlog', 200_000);
const repeats = argument(3, 'repeats of a drain', 3);
const BUCKETS = 32;
/** Milliseconds. */
const LEASE = smoke(20_000, 10_000);
const LONGEST = 60_000;
const LOOK_EVERY = 10;

interface Server {
  readonly url: string;
  readonly dataSource: DataSource;
  /** @returns when the backlog became visible */
  fill(): Promise<number>;
  /** CPU microseconds of what serves the relays. */
  cpu(): Promise<number>;
  /** The database's time, in SQL. */
  readonly clock: string;
}

async function postgres(closing: Closing): Promise<Server> {
  const { url } = await startPostgres(closing, { max_connections: '200' });
  const dataSource = await connect(closing, url);
  await createTables(dataSource);
  const admin = await adminClient(closing, url);
  const fill = async (): Promise<number> => {
    let from = NaN;
    const commit = (sql: string): Promise<unknown> => ((from = now()), admin.query(sql));
    await fillReady(admin, { rows: backlog, keys: 10_000, commit });
    return from;
  };
  return { url, dataSource, clock: 'clock_timestamp()', fill, cpu: () => cpuOfBackends(admin, 'nestjs-outbox') };
}

async function mariadb(closing: Closing): Promise<Server> {
  const { url, pid } = await startMariadb(closing);
  const dataSource = await connect(closing, url);
  await createTables(dataSource);
  const sql = `insert into outbox_ready (id, topic, \`key\`, type, payload)
    select concat('01938f00-0000-7000-8000-', lpad(lower(hex(seq)), 12, '0')), 'orders', concat('k', seq % 10000),
      'order.placed', ? from seq_1_to_${backlog}`;
  const fill = async (): Promise<number> => {
    await dataSource.query(sql, [PAYLOAD]);
    return now();
  };
  return { url, dataSource, clock: 'utc_timestamp(6)', fill, cpu: async () => cpuOfProcess(pid) };
}

interface Relay {
  readonly process: ChildProcess;
  messages: number;
  work: Work;
  readonly spans: Span[];
}

/** The relays of one size of fleet. */
class Fleet {
  readonly relays: Relay[] = [];

  constructor(
    readonly closing: Closing,
    readonly server: Server,
  ) {}

  async start(): Promise<Relay> {
    const process = child(this.closing, 'load/fleet-relay.ts', [this.server.url, String(LEASE)]);
    const relay: Relay = { process, messages: 0, work: { fetches: 0, empty: 0, settles: 0, cpu: 0 }, spans: [] };
    this.relays.push(relay);
    await untilReady<FleetWord>(process, ({ messages, work, spans }) => {
      Object.assign(relay, { messages, work });
      relay.spans.push(...spans);
    });
    return relay;
  }

  /** Waits until as many live instances have told that they are there. */
  async untilAlive(count: number): Promise<void> {
    const sql = `select count(*) as n from outbox_instances where expires_at > ${this.server.clock}`;
    const from = now();
    while (Number((await this.server.dataSource.query(sql))[0].n) < count) {
      if (now() - from > LONGEST) throw new Error(`After ${LONGEST} ms fewer than ${count} instances live.`);
      await delay(LOOK_EVERY);
    }
  }

  /** @returns milliseconds from `since` until so many instances share all buckets evenly */
  async even(count: number, since: number): Promise<number> {
    const sql = `select count(*) as n from outbox_leases where owner is not null and expires_at > ${this.server.clock} group by owner`;
    for (;;) {
      const shares = ((await this.server.dataSource.query(sql)) as { n: string }[]).map(({ n }) => Number(n));
      const at = now();
      const all = shares.reduce((sum, share) => sum + share, 0);
      const isEven = Math.max(...shares) - Math.min(...shares) <= 1;
      if (all === BUCKETS && shares.length === Math.min(count, BUCKETS) && isEven) return at - since;
      if (at - since > LONGEST)
        throw new Error(`After ${LONGEST} ms ${shares.length} instances have ${String(shares)}.`);
      await delay(LOOK_EVERY);
    }
  }

  get published(): number {
    return this.relays.reduce((sum, { messages }) => sum + messages, 0);
  }

  get work(): Work {
    const sum: Work = { fetches: 0, empty: 0, settles: 0, cpu: 0 };
    for (const { work } of this.relays) for (const name of Object.keys(sum) as (keyof Work)[]) sum[name] += work[name];
    return sum;
  }

  /** Spans of two relays in one bucket that lie across each other: two owners. */
  get overlaps(): number {
    return this.byBucket().reduce((count, spans) => {
      let end = { to: -Infinity, relay: -1 };
      for (const [from, to, relay] of spans) {
        if (from < end.to && relay !== end.relay) count += 1;
        if (to > end.to) end = { to, relay };
      }
      return count;
    }, 0);
  }

  /** The longest time in which nothing of a bucket was published, in milliseconds: its messages waited. */
  silence(from: number, to: number): number {
    const silences = this.byBucket().map((spans) => {
      let [last, longest] = [from, 0];
      for (const [begin, end] of spans) {
        if (end < from || begin > to) continue;
        longest = Math.max(longest, begin - last);
        last = Math.max(last, end);
      }
      return Math.max(longest, to - last);
    });
    return Math.max(...silences);
  }

  /** @internal */ byBucket(): (readonly [from: number, to: number, relay: number])[][] {
    const all = Array.from({ length: BUCKETS }, (): [number, number, number][] => []);
    for (const [index, { spans }] of this.relays.entries())
      for (const [bucket, from, to] of spans) all[bucket]?.push([from, to, index]);
    return all.map((spans) => spans.sort((a, b) => a[0] - b[0]));
  }
}

/** One event, and what it did to the buckets. */
async function event(fleet: Fleet, count: number, act: () => unknown): Promise<{ evenMs: number; silenceMs: number }> {
  await delay(smoke(1_000, 100));
  const at = now();
  await act();
  const since = now();
  const evenMs = await fleet.even(count, since);
  await delay(smoke(2_500, 600)); // what waited is out, and was told
  return { evenMs: round(evenMs), silenceMs: round(fleet.silence(at, now() - 500)) };
}

async function end({ process }: Relay, signal: NodeJS.Signals): Promise<void> {
  process.removeAllListeners('exit');
  const ended = once(process, 'exit');
  process.kill(signal);
  await ended;
}

interface Drained {
  readonly perSecond: number;
  /** Microseconds a message: of all relays, and of the database for them. */
  readonly nodeMicros: number;
  readonly serverMicros: number;
  /** Of fetches that found something, and of settles. */
  readonly rowsPerFetch: number;
  readonly rowsPerSettle: number;
  readonly emptyFetches: number;
}

/** A backlog that appears at once, and is told of. */
async function drain(fleet: Fleet): Promise<Drained> {
  for (const { spans } of fleet.relays) spans.length = 0;
  const from = await fleet.server.fill();
  const [before, published, serverBefore] = [fleet.work, fleet.published, await fleet.server.cpu()];
  for (const { process } of fleet.relays) if (process.connected) process.send('go');
  while (fleet.published - published < backlog) {
    if (now() - from > LONGEST) throw new Error(`${fleet.published - published} of ${backlog} were published.`);
    await delay(LOOK_EVERY);
  }
  const over = Math.max(...fleet.relays.flatMap((relay) => relay.spans.map(([, , at]) => at)));
  await untilEmpty(fleet.server.dataSource);
  const serverCpu = (await fleet.server.cpu()) - serverBefore;
  await delay(2 * TELL_EVERY);
  const { fetches, empty, settles, cpu } = fleet.work;
  const emptyFetches = empty - before.empty;
  await delay(smoke(2_000, 200)); // quiet again
  return {
    perSecond: round(backlog / ((over - from) / 1_000)),
    nodeMicros: round((cpu - before.cpu) / backlog, 2),
    serverMicros: round(serverCpu / backlog, 2),
    rowsPerFetch: round(backlog / (fetches - before.fetches - emptyFetches)),
    rowsPerSettle: round(backlog / (settles - before.settles)),
    emptyFetches,
  };
}

async function measure(parent: Closing, server: Server, count: number): Promise<Record<string, unknown>> {
  const closing = new Closing();
  parent.add(() => closing.all());
  const fleet = new Fleet(closing, server);
  await Promise.all(Array.from({ length: count }, () => fleet.start()));
  await fleet.even(count, now());
  const writer = child(closing, 'load/writer.ts', [server.url, 'orders', String(rate)]);
  await untilReady(writer, () => undefined);
  const join = await event(fleet, count + 1, async () => {
    void fleet.start();
    await fleet.untilAlive(count + 1);
  });
  const leave = await event(fleet, count, () => fleet.relays.at(-1)?.process.kill('SIGTERM'));
  const [killed, frozen] = await Promise.all([fleet.start(), fleet.start()]);
  await fleet.even(count + 2, now());
  const kill = await event(fleet, count + 1, () => end(killed, 'SIGKILL'));
  // Nobody can tell that from a machine that is gone: its leases run out.
  const freeze = await event(fleet, count, () => frozen.process.kill('SIGSTOP'));
  await end(frozen, 'SIGKILL');
  writer.removeAllListeners('exit');
  writer.send('stop');
  await once(writer, 'exit');
  await delay(smoke(2_000, 200));
  const { overlaps } = fleet;
  const drains: Drained[] = [];
  await drain(fleet); // code that runs for the first time
  for (let i = 0; i < repeats; i += 1) drains.push(await drain(fleet));
  for (const { process } of fleet.relays) process.removeAllListeners('exit');
  await Promise.all(fleet.relays.map((relay) => (relay.process.connected ? end(relay, 'SIGTERM') : undefined)));
  await closing.all();
  const [left] = await server.dataSource.query('select count(*) as n from outbox_ready');
  return {
    relays: count,
    join,
    leave,
    kill,
    freeze,
    overlaps,
    left: Number(left.n),
    drains,
    perSecond: median(drains.map(({ perSecond }) => perSecond)),
  };
}

bench('fleet', async (parent) => {
  const results: Record<string, unknown> = {};
  for (const [name, open] of Object.entries({ postgres, mariadb })) {
    if (only.length > 0 && !only.includes(name as 'postgres')) continue;
    const closing = new Closing(); // one server at a time
    parent.add(() => closing.all());
    const server = await open(closing);
    const all: Record<string, unknown>[] = [];
    for (let count = 1; count <= most; count *= 2) {
      all.push(await measure(closing, server, count));
      console.log(JSON.stringify({ [name]: all.at(-1) }));
    }
    results[name] = all;
    await closing.all();
  }
  return { lease: LEASE, rate, backlog, ...results };
});
