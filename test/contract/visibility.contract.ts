import { setTimeout as pause } from 'node:timers/promises';
import type { OutboxStore } from '../../lib/index.js';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import { CALM, Ledger, Writers } from '../support/ledger.js';
import { createHarness, newMessage, wrapped, type Harness } from '../support/relay.js';
import { until } from '../support/until.js';
import type { DatabaseKind } from '../support/services.js';

/** A transaction with messages, its fate in the test's hands. */
async function openWriter({ dataSource, store, options }: Harness): Promise<{
  insert(name: string): Promise<void>;
  commit(): Promise<void>;
}> {
  const runner = dataSource.createQueryRunner();
  await runner.startTransaction();
  return {
    async insert(name) {
      const message = { key: name.split(':')[0] as string, payload: Buffer.from(name) };
      await store.writer.insert(transactionExecutor(runner), [newMessage(message, options.buckets)]);
    },
    async commit() {
      await runner.commitTransaction();
      await runner.release();
    },
  };
}

/** Late commits: what becomes visible behind what was read already. Each test some seconds of load. */
export function describeVisibility(kind: DatabaseKind): void {
  let harness: Harness;
  let writers: Writers | undefined;
  afterEach(async () => {
    await writers?.close();
    writers = undefined;
    await harness?.close();
  });

  it('A1: eight writers of which a third commits late, some roll back, and one takes two seconds: nothing lost, nothing twice', async () => {
    harness = await createHarness(kind, { buckets: 4, pollInterval: 20 });
    const ledger = new Ledger();
    const open = (writers = await Writers.open(harness, ledger));
    const { dispatcher, hooks } = harness.relay({ default: ledger.transport() });
    await dispatcher.start();
    for (let w = 0; w < 8; w += 1) open.start(`w${w}`, { hold: 0.3, rollback: 0.05 });
    const slow = open.dataSource.createQueryRunner();
    await slow.startTransaction();
    for (let n = 0; n < 20; n += 1) {
      await harness.store.writer.insert(transactionExecutor(slow), [
        newMessage({ key: 'slow', payload: Buffer.from(`slow:${n}`) }, 4),
      ]);
      ledger.committed.add(`slow:${n}`);
      const { size } = ledger.committed;
      await Promise.all([pause(100), until(() => ledger.committed.size >= size + 10)]); // two seconds in all, while others commit around it
    }
    await slow.commitTransaction();
    await slow.release();
    await open.end();
    await until(() => ledger.complete, 120_000); // all of a load, on whatever machine
    await until(async () => (await harness.count('ready')) === 0);
    expect(ledger.committed.size).toBeGreaterThan(100);
    expect(ledger.verdict()).toEqual(CALM);
    expect(hooks.of('error')).toEqual([]);
  });

  it('strictly sequential writers beside others that commit late: the order of each key holds', async () => {
    harness = await createHarness(kind, { buckets: 2, pollInterval: 20 });
    const ledger = new Ledger();
    const open = (writers = await Writers.open(harness, ledger));
    const { dispatcher } = harness.relay({ default: ledger.transport() });
    await dispatcher.start();
    for (let w = 0; w < 6; w += 1) open.start(`quick${w}`);
    for (let w = 0; w < 6; w += 1) open.start(`late${w}`, { hold: 1, holdMs: 40, rollback: 0.05, batch: 3 });
    await until(() => ledger.committed.size >= 2_000, 120_000);
    await open.end();
    await until(() => ledger.complete, 120_000);
    expect(ledger.verdict()).toEqual(CALM);
  });

  it('A1: a transaction that commits while what became visible is looked for: its rows come in their order', async () => {
    let commitLate: (() => Promise<void>) | undefined;
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        sweep: async (...args) => {
          await commitLate?.();
          commitLate = undefined;
          return store.ready.sweep(...args);
        },
      });
    harness = await createHarness(kind, { buckets: 1, pollInterval: 20 });
    const ledger = new Ledger();
    const { dispatcher } = harness.relay({ default: ledger.transport() }, {}, { wrapStore });
    await dispatcher.start();
    const publish = async (name: string): Promise<void> => {
      await harness.enqueue([{ key: name, payload: Buffer.from(`${name}:0`) }]);
      await until(() => ledger.sightings.includes(`${name}:0`));
      await until(async () => (await harness.count('ready')) === 0); // settled: a fence
    };
    const first = await openWriter(harness);
    const other = await openWriter(harness);
    await first.insert('key:0');
    await publish('above the first row');
    await first.insert('key:1');
    await other.insert('other:0');
    await publish('above both rows');
    commitLate = first.commit;
    await other.commit(); // makes a sweep
    await until(() => ledger.sightings.includes('key:1') && ledger.sightings.includes('key:0'));
    expect(commitLate).toBeUndefined();
    expect(ledger.sightings.filter((name) => name.startsWith('key'))).toEqual(['key:0', 'key:1']);
  });

  it('A1: a transaction with thousands of messages that commits behind others is read in parts, all of it', async () => {
    harness = await createHarness(kind, { buckets: 4, pollInterval: 20, batchSize: 100 });
    const ledger = new Ledger();
    const open = (writers = await Writers.open(harness, ledger));
    const { dispatcher } = harness.relay({ default: ledger.transport() });
    await dispatcher.start();
    open.start('quick');
    const large = open.dataSource.createQueryRunner();
    await large.startTransaction();
    for (let part = 0; part < 10; part += 1) {
      const names = Array.from({ length: 400 }, (_, i) => `large${i % 40}:${part * 10 + Math.floor(i / 40)}`);
      const rows = names.map((name) =>
        newMessage({ key: name.split(':')[0] as string, payload: Buffer.from(name) }, 4),
      );
      await harness.store.writer.insert(transactionExecutor(large), rows);
      for (const name of names) ledger.committed.add(name);
      await pause(50);
    }
    let most = 0;
    const watch = until(() => {
      most = Math.max(most, ...dispatcher.status().transports.map(({ buffered, inFlight }) => buffered + inFlight));
      return ledger.complete && open.ended;
    }, 150_000);
    await large.commitTransaction();
    await large.release();
    await until(() => new Set(ledger.sightings.filter((name) => name.startsWith('large'))).size === 4_000, 120_000);
    await open.end();
    await watch;
    expect(ledger.verdict()).toEqual(CALM);
    expect(most).toBeLessThanOrEqual(100 * 6 + 2 * 100); // what the room is, and two reads over it
  });
}
