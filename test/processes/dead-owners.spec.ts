import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { OpenTransaction } from '../support/open-transactions.js';
import { createHarness, RecordedHooks, ScriptedTransport, type Harness } from '../support/relay.js';
import { describeOnEach, FEWER_DATABASES } from '../support/services.js';
import { until } from '../support/until.js';
import { end, heard, NO_WRITERS, startRelay, type FleetSettings } from './fleet.js';

const BUCKETS = 8;
/** Milliseconds: what nobody waits for here. */
const LEASE = 600_000;
/** Milliseconds: 1 to 2 seconds of it are the relay's. Far less than a lease, and no verdict on the machine. */
const NEVER = 60_000;

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
  async function start(
    pollInterval = 200,
  ): Promise<{ hooks: RecordedHooks; transport: ScriptedTransport; buckets: () => number }> {
    const transport = new ScriptedTransport();
    const { dispatcher, hooks } = harness.relay({ default: transport }, { pollInterval });
    await dispatcher.start();
    return { hooks, transport, buckets: () => dispatcher.status().transports[0]?.buckets.length ?? 0 };
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

  it('S4: but not a lease under which a statement of the dead is at work', async () => {
    await end(other, 'SIGKILL');
    const writer = await OpenTransaction.begin(harness);
    const share = kind === 'postgres' ? 'for share' : 'lock in share mode';
    await writer.query(`select 1 from outbox_leases where transport = 0 and bucket = 2 ${share}`);
    const { buckets } = await start();
    await until(() => buckets() > 0, NEVER);
    await pause(1_000);
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
    const { hooks, buckets } = await start();
    await pause(5_000);
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
    const { hooks, buckets } = await start();
    await pause(4_000);
    expect(buckets()).toBe(0);
    // None, where the other had given back its half before the first look.
    expect(hooks.of('leasesHeld').filter(({ ofDead }) => ofDead > 0)).toEqual([]);
  });
});
