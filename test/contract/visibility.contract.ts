import { setTimeout as pause } from 'node:timers/promises';
import { transactionExecutor } from '../../lib/store/executors/typeorm-transaction.js';
import { CALM, Ledger, Writers } from '../support/ledger.js';
import { createHarness, newMessage, type Harness } from '../support/relay.js';
import { until } from '../support/until.js';

/** Late commits: what becomes visible behind what was read already. Each test some seconds of load. */
export function describeVisibility(kind: 'postgres' | 'mariadb'): void {
  let harness: Harness;
  let writers: Writers;
  afterEach(async () => {
    await writers?.close();
    await harness?.close();
  });

  it('eight writers of which a third commits late, some roll back, and one takes two seconds: nothing lost, nothing twice', async () => {
    harness = await createHarness(kind, { buckets: 4, pollInterval: 20 });
    const ledger = new Ledger();
    writers = await Writers.open(harness, ledger);
    const { dispatcher, hooks } = harness.relay({ default: ledger.transport() });
    await dispatcher.start();
    for (let w = 0; w < 8; w += 1) writers.start(`w${w}`, { hold: 0.3, rollback: 0.05 });
    const slow = writers.dataSource.createQueryRunner();
    await slow.startTransaction();
    for (let n = 0; n < 20; n += 1) {
      await harness.store.insert(transactionExecutor(slow), [
        newMessage({ key: 'slow', payload: Buffer.from(`slow:${n}`) }, 4),
      ]);
      ledger.committed.add(`slow:${n}`);
      await pause(100); // two seconds in all, while thousands commit around it
    }
    await slow.commitTransaction();
    await slow.release();
    await writers.end();
    await until(() => ledger.complete);
    await until(async () => (await harness.count('ready')) === 0);
    expect(ledger.committed.size).toBeGreaterThan(500);
    expect(ledger.verdict()).toEqual(CALM);
    expect(hooks.of('error')).toEqual([]);
  }, 30_000);

  it('strictly sequential writers beside others that commit late: the order of each key holds', async () => {
    harness = await createHarness(kind, { buckets: 2, pollInterval: 20 });
    const ledger = new Ledger();
    writers = await Writers.open(harness, ledger);
    const { dispatcher } = harness.relay({ default: ledger.transport() });
    await dispatcher.start();
    for (let w = 0; w < 6; w += 1) writers.start(`quick${w}`);
    for (let w = 0; w < 6; w += 1) writers.start(`late${w}`, { hold: 1, holdMs: 40, rollback: 0.05, batch: 3 });
    await pause(4_000); // of load
    await writers.end();
    await until(() => ledger.complete);
    expect(ledger.committed.size).toBeGreaterThan(500);
    expect(ledger.verdict()).toEqual(CALM);
  }, 30_000);

  it('a transaction with thousands of messages that commits behind others is read in parts, all of it', async () => {
    harness = await createHarness(kind, { buckets: 4, pollInterval: 20, batchSize: 100 });
    const ledger = new Ledger();
    writers = await Writers.open(harness, ledger);
    const { dispatcher } = harness.relay({ default: ledger.transport() });
    await dispatcher.start();
    writers.start('quick');
    const large = writers.dataSource.createQueryRunner();
    await large.startTransaction();
    for (let part = 0; part < 10; part += 1) {
      const names = Array.from({ length: 400 }, (_, i) => `large${i % 40}:${part * 10 + Math.floor(i / 40)}`);
      const rows = names.map((name) =>
        newMessage({ key: name.split(':')[0] as string, payload: Buffer.from(name) }, 4),
      );
      await harness.store.insert(transactionExecutor(large), rows);
      for (const name of names) ledger.committed.add(name);
      await pause(50);
    }
    let most = 0;
    const watch = until(() => {
      most = Math.max(most, ...dispatcher.status().lanes.map(({ buffered, inFlight }) => buffered + inFlight));
      return ledger.complete && writers.stopped;
    }, 20_000);
    await large.commitTransaction();
    await large.release();
    await until(() => new Set(ledger.sightings.filter((name) => name.startsWith('large'))).size === 4_000);
    await writers.end();
    await watch;
    expect(ledger.verdict()).toEqual(CALM);
    expect(most).toBeLessThanOrEqual(100 * 6 + 2 * 100); // what the room is, and two reads over it
  }, 30_000);
}
