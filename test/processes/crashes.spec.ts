// @tier gate
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { describeOnEach, FEWER_DATABASES } from '../support/services.js';
import { until } from '../support/until.js';
import {
  end,
  expireLeases,
  heard,
  NO_WRITERS,
  readLedger,
  repeatedAfter,
  startRelay,
  useFleet,
  type FleetSettings,
} from './fleet.js';

const BATCH = 5;
const IN_FLIGHT = 2;
/** Between publish and settle, and around what else is written. */
const FAILPOINTS = [
  ['publish', 'before', 2],
  ['publish', 'after', 2],
  ['settle', 'before', 2],
  ['settle', 'after', 2],
  ['park', 'after', 1],
  ['take', 'after', 1],
] as const;
/** Longer than the test that kills at six points: leases end where it says so. */
const LEASE = 600_000;
/** Where something is published and not settled at the moment of the death, whatever else is going on. */
const REPEATS = [1, 2];

describeOnEach([], 'relay processes that are killed', (kind) => {
  const fleet = useFleet(kind, { buckets: 4, lease: LEASE, publishTimeout: '1m' });
  let harness: typeof fleet.harness;
  let settings: FleetSettings;
  beforeEach(() => {
    const { ledger } = fleet;
    ({ harness } = fleet);
    const limits = { batchSize: BATCH, batchesInFlight: IN_FLIGHT, retry: { initial: 20, max: 20, maxAttempts: null } };
    const relayOptions = { buckets: 4, publishTimeout: '1m' as const, ...limits };
    settings = { ...NO_WRITERS, url: harness.database.url, ledger, lease: LEASE, refuse: true, relayOptions };
  });

  async function start(more: Partial<FleetSettings>): Promise<ChildProcess> {
    const child = await startRelay({ ...settings, ...more });
    fleet.children.push(child);
    return child;
  }
  /** Six messages for each of ten keys, of which one has a hard time. */
  const written = new Map<string, number>();
  async function write(): Promise<void> {
    for (let i = 0; i < 6; i += 1) {
      const keys = Array.from({ length: 10 }, (_, k) => `k${k}`);
      for (const key of keys) written.set(key, (written.get(key) ?? 0) + 1);
      await harness.enqueue(keys.map((key) => ({ key, payload: Buffer.from(String(written.get(key))) })));
    }
  }
  const empty = async (): Promise<boolean> =>
    (await harness.count('ready')) === 0 && (await harness.count('parked')) === 0;

  it('B4: killed at six points: nothing lost, order kept, each repeats only what was in flight', async () => {
    const victims = await Promise.all(
      FAILPOINTS.map(([method, when, nth]) => start({ waits: true, dieAt: { method, when, nth } })),
    );
    const survivor = await start({ waits: true });
    for (const [n, victim] of victims.entries()) {
      await write();
      const died = once(victim, 'exit', { signal: AbortSignal.timeout(60_000) });
      victim.send({ start: true });
      expect([FAILPOINTS[n], (await died)[1]]).toEqual([FAILPOINTS[n], 'SIGKILL']);
      await expireLeases(harness.dataSource);
    }
    survivor.send({ start: true });
    await until(empty, 60_000);
    const { lines, publishers: _, ...rest } = readLedger(settings.ledger);
    expect(rest).toEqual({ distinct: FAILPOINTS.length * 60, ghosts: 0, outOfOrder: 0 });
    const repeated = repeatedAfter(settings.ledger);
    const perKill = victims.map(({ pid }) => repeated.get(pid as number) ?? 0);
    expect(Math.max(...perKill)).toBeLessThanOrEqual(BATCH * (IN_FLIGHT + 2));
    expect(REPEATS.filter((n) => perKill[n] === 0).map((n) => FAILPOINTS[n])).toEqual([]);
    expect(perKill.reduce((sum, count) => sum + count)).toBe(lines - rest.distinct); // the survivor repeats nothing of its own
  }, 600_000);

  if (!FEWER_DATABASES.includes(kind)) return; // a lease that runs out: the contract of the store has it

  it('B5, S4: all killed, one started: everything is through a lease and two polls later', async () => {
    // One that is late with its lease changes no verdict here.
    const short = {
      lease: 10_000,
      refuse: false,
      relayOptions: { ...settings.relayOptions, publishTimeout: '2s' as const },
    };
    const slow = { ...short, pace: 40 };
    const victims = await Promise.all([start(slow), start(slow)]);
    const owners = (): Promise<unknown[]> =>
      harness.dataSource.query('select distinct owner from outbox_leases where owner is not null');
    await until(async () => (await owners()).length === 2, 60_000);
    written.clear();
    for (let i = 0; i < 4; i += 1) await write();
    await until(() => readLedger(settings.ledger).publishers === 2, 60_000);
    const heir = await start({ ...short, waits: true });
    for (const victim of victims) await end(victim, 'SIGKILL');
    heir.send({ start: true });
    await heard(heir, 'ready');
    await until(empty, 60_000);
    expect(readLedger(settings.ledger)).toMatchObject({ distinct: 240, ghosts: 0, outOfOrder: 0 });
  });
});
