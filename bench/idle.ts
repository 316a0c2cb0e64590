import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { startApplication } from './support/app.js';
import { argument, median, round, smoke, timed } from './support/measure.js';
import { adminClient, LOGGED, startPostgres, statementsOf } from './support/postgres.js';
import { benchRelay, connect, createTables, drain, NoopTransport } from './support/relay.js';
import { fillReady, PAYLOAD_BYTES } from './support/rows.js';
import { bench, Closing } from './support/run.js';
import { cpuOfBackends } from './support/server-cpu.js';

/**
 * What an instance costs that has nothing to do: statements a second, and CPU; and how much memory it takes to drain a large
 * backlog.
 *   npm run bench -- idle [seconds=30] [backlog=5000000]
 */
const seconds = argument(0, 'seconds', 30);
const backlog = argument(1, 'backlog', 5_000_000);
/** Leases, the first looks, and code that runs for the first time. */
const SETTLE_DOWN = smoke(5_000, 500);

/** By the statement's name, or its first words. */
function byName(lines: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const line of lines) {
    const name = /execute ([\w]+):/.exec(line)?.[1] ?? line.slice(line.indexOf('  ') + 2).slice(0, 40);
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

async function idle(closing: Closing): Promise<Record<string, unknown>> {
  const server = await startPostgres(closing, LOGGED);
  const admin = await adminClient(closing, server.url);
  await startApplication(closing, server.url, { transports: { default: new NoopTransport() } });
  await delay(SETTLE_DOWN);
  const sent = statementsOf(server).length;
  const used = await cpuOfBackends(admin, 'nestjs-outbox');
  const { ms, cpu } = await timed(() => delay(seconds * 1_000));
  const serverCpu = (await cpuOfBackends(admin, 'nestjs-outbox')) - used;
  const lines = statementsOf(server).slice(sent);
  return {
    seconds,
    queriesPerSecond: round((lines.length / ms) * 1_000, 2),
    nodePercentOfCore: round(cpu / ms / 10, 3),
    serverPercentOfCore: round(serverCpu / ms / 10, 3),
    queries: byName(lines),
  };
}

/** Megabytes of this process, looked at while it works. */
class Memory {
  readonly samples: { readonly at: number; readonly rss: number }[] = [];
  /** @internal */ readonly timer = setInterval(() => this.look(), 20);

  look(): void {
    this.samples.push({ at: performance.now(), rss: process.memoryUsage.rss() / 2 ** 20 });
  }
  stop(): void {
    clearInterval(this.timer);
  }
  /** Between two parts of the time that it looked. */
  between(from: number, to: number): number[] {
    const [first, last] = [this.samples[0]?.at ?? 0, this.samples.at(-1)?.at ?? 0];
    const at = (part: number): number => first + (last - first) * part;
    return this.samples.filter((sample) => sample.at >= at(from) && sample.at <= at(to)).map(({ rss }) => rss);
  }
}

async function memory(closing: Closing): Promise<Record<string, unknown>> {
  const server = await startPostgres(closing, { max_wal_size: '2GB', wal_level: 'minimal', max_wal_senders: '0' });
  const dataSource = await connect(closing, server.url);
  await createTables(dataSource);
  const admin: pg.Client = await adminClient(closing, server.url);
  await fillReady(admin, { rows: backlog, keys: 10_000 });
  const relay = await benchRelay(dataSource, { default: new NoopTransport() });
  closing.add(() => relay.close());
  const before = process.memoryUsage.rss() / 2 ** 20;
  const watch = new Memory();
  const drained = await drain(dataSource, relay, backlog);
  watch.stop();
  // The first tenth is V8 getting to the size of heap that the work wants.
  const [early, late] = [watch.between(0.1, 0.3), watch.between(0.8, 1)];
  if (early.length === 0 || late.length === 0)
    throw new Error(`A backlog of ${backlog} is gone too soon to be watched.`);
  return {
    backlog,
    payloadBytes: PAYLOAD_BYTES,
    rowsPerSecond: round((drained.rows / drained.ms) * 1_000),
    rssBeforeMB: round(before),
    rssEarlyMB: round(median(early)),
    rssLateMB: round(median(late)),
    rssMaxMB: round(Math.max(...watch.between(0, 1))),
    growth: round(median(late) / median(early), 3),
  };
}

bench('idle', async (parent) => {
  const part = async (
    work: (closing: Closing) => Promise<Record<string, unknown>>,
  ): Promise<Record<string, unknown>> => {
    const closing = new Closing(); // one server at a time
    parent.add(() => closing.all());
    const result = await work(closing);
    await closing.all();
    console.log(JSON.stringify(result));
    return result;
  };
  const quiet = await part(idle);
  return { ...quiet, memory: backlog === 0 ? null : await part(memory) };
});
