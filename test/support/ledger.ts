import { setTimeout as pause } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import { PUBLISHED } from '../../lib/index.js';
import { newMessage, ScriptedTransport, type Harness } from './relay.js';

/** What all relays of a test published, in the order in which a broker would have seen it. */
export class Ledger {
  /** `key:n` of each sighting; `n` counts up per key, in the order of the commits. */
  readonly sightings: string[] = [];
  readonly committed = new Set<string>();

  /** Another relay's way to the same broker. */
  transport(): ScriptedTransport {
    const transport = new ScriptedTransport();
    transport.behave = async ({ payload }) => {
      await new Promise((resolve) => setImmediate(resolve));
      this.sightings.push(String(payload));
      return PUBLISHED;
    };
    return transport;
  }

  get complete(): boolean {
    return new Set(this.sightings).size >= this.committed.size;
  }

  /** Lost, invented, seen twice; first sightings that came before their predecessor's. */
  verdict(): { lost: number; ghosts: number; duplicates: number; outOfOrder: number } {
    const seen = new Set(this.sightings);
    const last = new Map<string, number>();
    let outOfOrder = 0;
    for (const sighting of seen) {
      const [key, n] = sighting.split(':') as [string, string];
      if (Number(n) < (last.get(key) ?? -1)) outOfOrder += 1;
      last.set(key, Math.max(last.get(key) ?? -1, Number(n)));
    }
    return {
      lost: [...this.committed].filter((each) => !seen.has(each)).length,
      ghosts: [...seen].filter((each) => !this.committed.has(each)).length,
      duplicates: this.sightings.length - seen.size,
      outOfOrder,
    };
  }
}
export const CALM = { lost: 0, ghosts: 0, duplicates: 0, outOfOrder: 0 };

export interface WriterHabits {
  /** Share of transactions that hold their row, uncommitted, for up to `holdMs`. */
  readonly hold?: number;
  readonly holdMs?: number;
  /** Share of transactions that roll back. */
  readonly rollback?: number;
  /** Between two transactions. */
  readonly pauseMs?: number;
  /** Messages per transaction. */
  readonly batch?: number;
}

/** Writers with connections of their own, one key each, one transaction after the other. */
export class Writers {
  stopped = false;
  ended = false;
  running: Promise<void>[] = [];

  constructor(
    readonly harness: Harness,
    readonly ledger: Ledger,
    readonly dataSource: DataSource,
  ) {}

  static async open(harness: Harness, ledger: Ledger, connections = 16): Promise<Writers> {
    const dataSource = new DataSource({ ...harness.database.options, poolSize: connections } as never);
    return new Writers(harness, ledger, await dataSource.initialize());
  }

  start(key: string, habits: WriterHabits = {}): void {
    this.running.push(this.write(key, habits));
  }

  /** All that began is committed or rolled back. */
  async end(): Promise<void> {
    this.stopped = true;
    await Promise.all(this.running);
    this.running = [];
    this.ended = true;
  }
  async close(): Promise<void> {
    await this.end();
    await this.dataSource.destroy();
  }

  /** @internal */ async write(
    key: string,
    { hold = 0, holdMs = 30, rollback = 0, pauseMs = 0, batch = 1 }: WriterHabits,
  ): Promise<void> {
    for (let n = 0; !this.stopped; n += batch) {
      const names = Array.from({ length: batch }, (_, i) => `${key}:${n + i}`);
      const runner = this.dataSource.createQueryRunner();
      try {
        await runner.startTransaction();
        const rows = names.map((name) => newMessage({ key, payload: Buffer.from(name) }, this.harness.options.buckets));
        await this.harness.store.writer.insert(transactionExecutor(runner), rows);
        if (Math.random() < hold) await pause(Math.random() * holdMs);
        if (Math.random() < rollback) await runner.rollbackTransaction();
        else {
          for (const name of names) this.ledger.committed.add(name);
          await runner.commitTransaction();
        }
      } finally {
        await runner.release();
      }
      if (pauseMs > 0) await pause(pauseMs);
    }
  }
}
