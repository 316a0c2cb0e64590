import { setTimeout as pause } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { createHarness, newMessage, type Harness } from '../../support/relay.js';
import { readyTexts } from '../../support/open-transactions.js';
import { describeWith } from '../../support/services.js';

const STATEMENTS = 400;

interface Reads {
  readonly deleted: number;
  readonly entries: number;
}

describeWith('postgres', 'a strict order on PostgreSQL, by its cost', () => {
  let harness: Harness;
  beforeAll(async () => {
    harness = await createHarness('postgres', { ordering: 'strict' });
  });
  afterAll(() => harness.close());

  /** As the server counts: rows that were deleted from the staged table, and entries of its index that were read. */
  async function reads(): Promise<Reads> {
    const [row] = (await harness.dataSource.query(
      `select t.n_tup_del as deleted, i.idx_tup_read as entries from pg_stat_user_tables t
       join pg_stat_user_indexes i on i.relid = t.relid where t.relname = 'outbox_staged'`,
    )) as Record<string, string>[];
    return { deleted: Number(row?.['deleted']), entries: Number(row?.['entries']) };
  }

  /** One transaction that enqueues one by one, in a session that has ended since. */
  async function enqueueOneByOne(count: number): Promise<void> {
    const own = await new DataSource(harness.database.options).initialize();
    await own.transaction(async (manager) => {
      const tx = transactionExecutor(manager.queryRunner as never);
      for (let n = 0; n < count; n += 1)
        await harness.store.writer.insert(tx, [newMessage({ key: `k${n % 50}`, payload: Buffer.from(String(n)) })]);
    });
    await own.destroy();
  }

  it('moves what was enqueued one by one, in its order', async () => {
    await enqueueOneByOne(60);
    expect(await readyTexts(harness)).toEqual(Array.from({ length: 60 }, (_, n) => `k${n % 50}:${n}`));
  });

  it('T1: the commit of a transaction that enqueued one by one reads each of its messages a few times, not each for each', async () => {
    const before = await reads();
    await enqueueOneByOne(STATEMENTS);
    let now = await reads(); // a session tells its counts when it ends
    for (; now.deleted < before.deleted + STATEMENTS; now = await reads()) await pause(20);
    expect(now.entries - before.entries).toBeLessThan(STATEMENTS * 10); // 80,000 and more if each statement reads all of them
  });
});
