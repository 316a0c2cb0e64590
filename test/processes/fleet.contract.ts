import { once } from 'node:events';
import type { ChildProcess } from 'node:child_process';
import { until } from '../support/until.js';
import { end, readLedger, startProcess, startRelay, useFleet, type FleetSettings } from './fleet.js';
import type { DatabaseKind } from '../support/services.js';

const WRITERS = 16;
const WRITER_PROCESSES = 2;
const KEYS = 1_008; // 63 for each writer
/** Milliseconds: a lease that does not end while a test runs. */
const LONG = 600_000;

/** Real processes: four relays, sixteen writers, one database. */
export function describeFleet(kind: DatabaseKind, messages: number): void {
  const fleet = useFleet(kind);
  const { children } = fleet;
  let harness: typeof fleet.harness;

  function prepare(lease: number): FleetSettings {
    const { ledger } = fleet;
    ({ harness } = fleet);
    const writers = WRITERS / WRITER_PROCESSES;
    const messagesPerWriter = messages / WRITERS;
    return {
      url: harness.database.url,
      ledger,
      lease,
      writers,
      firstWriter: 0,
      keysPerWriter: KEYS / WRITERS,
      messagesPerWriter,
    };
  }

  function write(settings: FleetSettings): Promise<unknown>[] {
    return Array.from({ length: WRITER_PROCESSES }, (_, i) => {
      const writer = startProcess('writer-process', { ...settings, firstWriter: i * settings.writers });
      children.push(writer);
      return once(writer, 'message', { signal: AbortSignal.timeout(900_000) });
    });
  }

  async function owners(): Promise<number> {
    const sql = 'select distinct owner from outbox_leases where owner is not null';
    return ((await harness.dataSource.query(sql)) as unknown[]).length;
  }

  async function relays(settings: FleetSettings): Promise<ChildProcess[]> {
    const started = await Promise.all(Array.from({ length: 4 }, () => startRelay(settings)));
    children.push(...started);
    return started;
  }

  it('four relays and sixteen writers: each message once, in order per key', async () => {
    const settings = prepare(LONG); // a relay that is late is none that has lost its lease
    const started = await relays(settings);
    await until(async () => (await owners()) === 4, 60_000); // the first to come had all of them for a while
    await Promise.all(write(settings));
    await until(async () => (await harness.count('ready')) === 0, 180_000);
    await Promise.all(started.map((relay) => end(relay, 'SIGTERM')));
    expect(readLedger(settings.ledger)).toEqual({
      lines: messages,
      distinct: messages,
      ghosts: 0,
      outOfOrder: 0,
      publishers: 4,
    });
    expect(await harness.count('parked')).toBe(0);
  }, 1_200_000);

  it('G9: one relay killed, one frozen past its lease: nothing lost, order kept, duplicates bounded by what was in flight', async () => {
    const settings = prepare(10_000);
    const started = await relays(settings);
    await until(async () => (await owners()) === 4, 60_000);
    const [victim, sleeper] = started as [ChildProcess, ChildProcess];
    const written = write(settings);
    await until(() => readLedger(settings.ledger).publishers === 4, 60_000, 500);
    victim.kill('SIGKILL');
    sleeper.kill('SIGSTOP');
    await Promise.all(written);
    // Everything is through although one sleeps: its buckets were taken over after their lease.
    await until(() => readLedger(settings.ledger).distinct === messages, 120_000, 500);
    sleeper.kill('SIGCONT');
    await until(async () => (await harness.count('ready')) === 0, 180_000);
    await Promise.all(started.slice(1).map((relay) => end(relay, 'SIGTERM')));
    const { lines, ...rest } = readLedger(settings.ledger);
    expect(rest).toEqual({ distinct: messages, ghosts: 0, outOfOrder: 0, publishers: 4 });
    // At most what two relays had handed over and not settled: four batches of 500 each, and one settle of 1,000 behind them.
    expect(lines - messages).toBeLessThanOrEqual(2 * (4 * 500 + 1_000));
  }, 1_200_000);
}
