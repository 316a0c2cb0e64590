import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OutboxStore } from '../../lib/store/outbox-store.js';
import { systemClock } from '../../lib/time/clock.js';
import { OpenTransaction } from '../support/open-transactions.js';
import { createHarness, RecordedHooks, ScriptedTransport, wrapped, type Harness } from '../support/relay.js';
import { describeOnEach, FEWER_DATABASES } from '../support/services.js';
import { until } from '../support/until.js';
import { end, heard, NO_WRITERS, startRelay, type FleetSettings } from './fleet.js';
import { runStatus } from '../support/status-command.js';

const BUCKETS = 8;
/** Milliseconds: what nobody waits for here. */
const LEASE = 600_000;
/** Milliseconds: 1 to 2 seconds of it are the relay's. Far less than a lease, and no verdict on the machine. */
const NEVER = 60_000;
/** Milliseconds after which the leases of one that is known to be dead have ended. */
const LONG = 5_000;

interface Started {
  readonly hooks: RecordedHooks;
  readonly transport: ScriptedTransport;
  readonly buckets: () => number;
  /** So many looks at the others have begun from now on; all but the last one are over, with what came of them. */
  looked(times: number): Promise<void>;
  /** It has seen the others, its clock has gone on, and it has seen them again. */
  longAfter(): Promise<void>;
}

describeOnEach([], 'leases that a dead process of this machine left', (kind) => {
  let harness: Harness;
  let directory: string;
  let settings: FleetSettings;
  let other: ChildProcess;
  beforeEach(async () => {
    harness = await createHarness(kind, { buckets: BUCKETS, lease: LEASE });
    directory = mkdtempSync(join(tmpdir(), 'outbox-dead-'));
    const ledger = join(directory, 'ledger');
    writeFileSync(ledger, '');
    const relayOptions = { buckets: BUCKETS };
    settings = { ...NO_WRITERS, url: harness.database.url, ledger, lease: LEASE, relayOptions };
    other = await startRelay({ ...settings, waits: true });
    const leases = heard(other, 'leasesAcquired');
    other.send({ start: true });
    await leases;
    await until(async () => (await held()).length === BUCKETS, NEVER);
  });
  afterEach(async () => {
    await OpenTransaction.endAll();
    await end(other, 'SIGKILL');
    await harness.close();
    rmSync(directory, { recursive: true, force: true });
  });

  const held = (): Promise<{ owner: string; epoch: string }[]> =>
    harness.dataSource.query('select owner, epoch from outbox_leases where owner is not null');
  /** Another process than `other`, as everybody can see. */
  async function start(pollInterval = 200): Promise<Started> {
    const transport = new ScriptedTransport();
    let [looks, ahead] = [0, 0];
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + ahead };
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, { living: () => ((looks += 1), store.leases.living()) });
    const { dispatcher, hooks } = harness.relay({ default: transport }, { pollInterval }, { clock, wrapStore });
    await dispatcher.start();
    const looked = async (times: number): Promise<void> => {
      const enough = looks + times;
      await until(() => looks >= enough, NEVER);
    };
    const longAfter = async (): Promise<void> => {
      await looked(2);
      ahead += LONG;
      await looked(3);
    };
    const buckets = (): number => dispatcher.status().transports[0]?.buckets.length ?? 0;
    return { hooks, transport, buckets, looked, longAfter };
  }
  const messages = (count: number) => Array.from({ length: count }, (_, n) => ({ key: `k${n}` }));

  it('S4: the next one publishes long before they run out, however seldom it polls, and says at its start whose leases it waits for', async () => {
    const owner = (await held())[0]?.owner ?? '';
    await end(other, 'SIGKILL');
    await harness.enqueue(messages(20));
    const { hooks, transport } = await start(60_000);
    await transport.until(() => transport.published.length === 20, NEVER);
    expect((await held()).map(({ epoch }) => Number(epoch))).toEqual(Array.from({ length: BUCKETS }, () => 2));
    const place = expect.stringMatching(new RegExp(`pid ${other.pid}$`));
    expect(hooks.of('leasesHeld')).toEqual([
      { buckets: BUCKETS, owners: [owner], places: [place], runOutIn: expect.any(Number), ofDead: BUCKETS },
    ]);
    const { runOutIn } = hooks.of('leasesHeld')[0] as { runOutIn: number };
    expect(runOutIn).toBeGreaterThan(LEASE / 2);
    expect(runOutIn).toBeLessThanOrEqual(LEASE);
    expect(hooks.of('leasesExpired')).toEqual([{ owner, buckets: BUCKETS }]);
    expect(hooks.of('warning').map(({ text }) => text)).toEqual([
      expect.stringContaining(`${BUCKETS} leases of the instance ${owner}`),
    ]);
    expect(await harness.count('instances')).toBe(1);
  });

  it('S4: a process without a relay says at once that nothing goes out, and whose leases are waited for', async () => {
    expect(await runStatus(harness)).toMatchObject({ status: 'up', relays: 1 });
    await end(other, 'SIGKILL');
    await harness.enqueue(messages(1));
    const { lines, ...said } = await runStatus(harness);
    expect(said).toEqual({ status: 'down', exitCode: 3, relays: 0 });
    expect(lines).toEqual([expect.stringMatching(new RegExp(`^relay_silent: .*pid ${other.pid} last reported at `))]);
  });

  it('S4: but not a lease under which a statement of the dead is at work', async () => {
    await end(other, 'SIGKILL');
    const writer = await OpenTransaction.begin(harness);
    const share = kind === 'postgres' ? 'for share' : 'lock in share mode';
    await writer.query(`select 1 from outbox_leases where transport = 0 and bucket = 2 ${share}`);
    const { buckets, looked } = await start();
    await until(() => buckets() > 0, NEVER);
    await looked(3);
    expect(buckets()).toBeLessThan(BUCKETS);
    await writer.commit();
    await until(() => buckets() === BUCKETS, NEVER);
  });

  if (!FEWER_DATABASES.includes(kind)) return; // the rest does not hang on the server

  it('S4: so does one that shared with it, which wants no more than its share while the dead counts', async () => {
    const { hooks, buckets } = await start();
    await until(() => buckets() === BUCKETS / 2, NEVER);
    await end(other, 'SIGKILL');
    await until(() => buckets() === BUCKETS, NEVER);
    // None, where the other had given back its half before the first look.
    expect(hooks.of('leasesHeld').filter(({ ofDead }) => ofDead > 0)).toEqual([]);
  });

  it('S5: one that only stands still keeps them', async () => {
    other.kill('SIGSTOP');
    const { hooks, buckets, longAfter } = await start();
    await longAfter();
    expect(buckets()).toBe(0);
    // None, where the other had given back its half before the first look.
    expect(hooks.of('leasesHeld').filter(({ ofDead }) => ofDead > 0)).toEqual([]);
    other.kill('SIGCONT');
    await until(() => buckets() === BUCKETS / 2, NEVER);
    expect(new Set((await held()).map(({ owner }) => owner)).size).toBe(2);
    expect(hooks.of('warning')).toEqual([]);
  });

  it.each([
    ['does not say which process it was', (info: string) => info.replace(/ life .*/, '')],
    [
      'was in another container, or on another machine',
      (info: string) => info.replace(/life \w{16}/, 'life 0123456789abcdef'),
    ],
  ])('S5: a dead one that %s is waited for', async (_, change) => {
    const rows: [{ info: string }] = await harness.dataSource.query('select info from outbox_instances');
    expect(rows[0].info).toMatch(/ life [0-9a-f]{16}\.\d+\.\d+$/);
    await end(other, 'SIGKILL');
    await harness.dataSource.query(`update outbox_instances set info = '${change(rows[0].info)}'`);
    const { hooks, buckets, longAfter } = await start();
    await longAfter();
    expect(buckets()).toBe(0);
    // None, where the other had given back its half before the first look.
    expect(hooks.of('leasesHeld').filter(({ ofDead }) => ofDead > 0)).toEqual([]);
  });
});
