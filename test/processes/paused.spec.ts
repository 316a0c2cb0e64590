import type { ChildProcess } from 'node:child_process';
import { pausesOf } from '../support/operator.js';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createHarness, type Harness } from '../support/relay.js';
import { describeOnEach } from '../support/services.js';
import { until } from '../support/until.js';
import { end, expireLeases, heard, NO_WRITERS, readLedger, startRelay, type FleetSettings } from './fleet.js';

const SCOPE = { transport: 0, topic: null, key: null };
/** Longer than the test, which ends those of the dead. */
const LEASE = 600_000;
const ACTION = { scope: SCOPE, actor: 'ana', filter: '{}' } as const;

describeOnEach([], 'a relay process that is killed in a pause', (kind) => {
  let harness: Harness;
  let directory: string;
  let settings: FleetSettings;
  const children: ChildProcess[] = [];
  beforeEach(async () => {
    harness = await createHarness(kind, { buckets: 4, lease: LEASE, publishTimeout: '1m' });
    directory = mkdtempSync(join(tmpdir(), 'outbox-paused-'));
    const ledger = join(directory, 'ledger');
    writeFileSync(ledger, '');
    const relayOptions = { buckets: 4, publishTimeout: '1m', batchSize: 5, batchesInFlight: 1 } as const;
    settings = { ...NO_WRITERS, url: harness.database.url, ledger, lease: LEASE, relayOptions };
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await end(child, 'SIGKILL');
    await harness.close();
    rmSync(directory, { recursive: true, force: true });
  });

  /** @param pace milliseconds for each message */
  async function start(pace: number): Promise<ChildProcess> {
    const child = await startRelay({ ...settings, pace });
    children.push(child);
    return child;
  }
  let written = 0;
  /** Ten rounds of six keys, each key numbered from 1. */
  async function write(): Promise<void> {
    for (let i = 0; i < 10; i += 1) {
      written += 1;
      const payload = Buffer.from(String(written));
      await harness.enqueue(Array.from({ length: 6 }, (_, k) => ({ key: `k${k}`, payload })));
    }
  }
  const held = async (): Promise<number> =>
    (await harness.dataSource.query('select 1 from outbox_leases where owner is not null')).length;
  const lines = (): number => readFileSync(settings.ledger, 'utf8').split('\n').length - 1;

  it('leaves the pause to the next one, which publishes the rest in order when it is over', async () => {
    const victim = await start(500); // half a minute for all of them: it is killed in the middle of a batch
    await write();
    await until(() => lines() > 0, 60_000);
    await pausesOf(harness.store).pause({ ...ACTION, reason: 'audit' });
    await end(victim, 'SIGKILL'); // whether it has heard of the pause or not
    const before = lines();
    expect(before).toBeLessThan(60);
    await expireLeases(harness.dataSource);
    const heir = await startRelay({ ...settings, pace: 20, waits: true });
    children.push(heir);
    const paused = heard(heir, 'paused');
    heir.send({ start: true });
    await paused;
    await write();
    await until(async () => (await held()) === 4, 60_000);
    expect(lines()).toBe(before);
    await pausesOf(harness.store).resume(ACTION);
    await until(async () => (await harness.count('ready')) === 0, 60_000);
    const { distinct, ghosts, outOfOrder } = readLedger(settings.ledger);
    expect({ distinct, ghosts, outOfOrder }).toEqual({ distinct: 120, ghosts: 0, outOfOrder: 0 });
  });
});
