import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { median, percentile, round } from '../support/measure.js';
import { cpuOfProcess } from '../support/server-cpu.js';
import type { Latencies } from './latencies.js';

interface Sample {
  readonly rssMB: number;
  readonly descriptors: number;
  readonly connections: number;
  readonly tableMB: number;
  readonly indexMB: number;
  readonly deadRows: number;
  readonly backlog: number;
}
/** The medians of a minute's samples, the largest backlog, and the latencies of its messages in milliseconds. */
export interface Minute extends Sample {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** What the broker took to confirm a single message beside the load. */
  readonly brokerP50: number;
  readonly brokerP99: number;
  readonly relayCores: number;
}

const EVERY = 5_000;

/** Looks at the relay's process and at its table. */
export class Watch {
  readonly minutes: Minute[] = [];

  constructor(
    readonly admin: pg.Client,
    readonly relay: number,
    readonly latencies: Latencies,
    readonly confirms: () => number[],
  ) {}

  async during(milliseconds: number): Promise<void> {
    this.latencies.take();
    this.confirms();
    const samples: Sample[] = [];
    const cpu = cpuOfProcess(this.relay);
    const begun = performance.now();
    while (performance.now() - begun < milliseconds) {
      await delay(Math.min(EVERY, milliseconds));
      samples.push(await this.look());
    }
    const elapsed = performance.now() - begun;
    const values = this.latencies.take();
    const confirms = this.confirms();
    const middle = (name: keyof Sample): number => median(samples.map((sample) => sample[name]));
    this.minutes.push({
      rssMB: middle('rssMB'),
      descriptors: middle('descriptors'),
      connections: middle('connections'),
      tableMB: middle('tableMB'),
      indexMB: middle('indexMB'),
      deadRows: middle('deadRows'),
      backlog: Math.max(...samples.map(({ backlog }) => backlog)),
      p50: round(percentile(values, 50), 2),
      p99: round(percentile(values, 99), 2),
      max: round(Math.max(...values), 1),
      brokerP50: round(percentile(confirms, 50), 2),
      brokerP99: round(percentile(confirms, 99), 2),
      relayCores: round((cpuOfProcess(this.relay) - cpu) / elapsed / 1_000, 2),
    });
  }

  /** First and last quarter, after a first minute of warming up: what is flat, is the same in both. */
  summary(): Record<string, unknown> {
    const all = this.minutes.slice(this.minutes.length > 4 ? 1 : 0);
    const quarter = Math.max(1, Math.floor(all.length / 4));
    const part = (minutes: readonly Minute[]): Record<string, number> =>
      Object.fromEntries(
        (Object.keys(all[0] as Minute) as (keyof Minute)[]).map((name) => [name, median(minutes.map((m) => m[name]))]),
      );
    return {
      early: part(all.slice(0, quarter)),
      late: part(all.slice(-quarter)),
      worstP99: Math.max(...all.map(({ p99 }) => p99)),
      largestBacklog: Math.max(...all.map(({ backlog }) => backlog)),
    };
  }

  /** @internal */
  async look(): Promise<Sample> {
    const { rows } = await this.admin.query<Record<string, string>>(
      `select pg_relation_size('outbox_ready') as table_bytes, pg_indexes_size('outbox_ready') as index_bytes,
         (select n_dead_tup from pg_stat_user_tables where relname = 'outbox_ready') as dead,
         (select count(*) from outbox_ready) as backlog,
         (select count(*) from pg_stat_activity where application_name = 'nestjs-outbox') as connections`,
    );
    const row = rows[0] as Record<string, string>;
    return {
      rssMB: round(residentBytes(this.relay) / 2 ** 20, 1),
      descriptors: readdirSync(`/proc/${this.relay}/fd`).length,
      connections: Number(row['connections']),
      tableMB: round(Number(row['table_bytes']) / 2 ** 20, 1),
      indexMB: round(Number(row['index_bytes']) / 2 ** 20, 1),
      deadRows: Number(row['dead']),
      backlog: Number(row['backlog']),
    };
  }
}

function residentBytes(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}
