// @tier gate
import { describeCommitOrder } from '../../contract/commit-order.contract.js';
import { OpenTransaction, readyTexts, waitsForLock } from '../../support/open-transactions.js';
import { canStart, startOwnPostgres, type OwnDatabase } from '../../support/own-database.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeUnlessMissing } from '../../support/services.js';

describeUnlessMissing(canStart.postgres ? [] : ['postgres'], 'a strict order on PostgreSQL', () => {
  let server: OwnDatabase | undefined;
  beforeAll(async () => {
    const settings = { wal_level: 'logical', max_prepared_transactions: '4', deadlock_timeout: '50ms' };
    server = await startOwnPostgres(settings);
  });
  afterAll(() => server?.stop());

  const open = (ordering: 'key' | 'strict'): Promise<Harness> => createHarness('postgres', { ordering }, server?.url);

  describeCommitOrder(open, async (harness, { failed }) => {
    expect(failed).toEqual({}); // no deadlock, whatever the order of the keys
    expect(await harness.count('staged')).toBe(0);
  });

  it('a prepared transaction holds its keys until its second phase', async () => {
    const harness = await open('strict');
    const begin = (): Promise<OpenTransaction> => OpenTransaction.begin(harness);
    try {
      const [prepared, dropped, next] = [await begin(), await begin(), await begin()];
      await prepared.enqueue('prepared', 'k');
      await prepared.query(`prepare transaction 'one'`);
      await prepared.commit(); // of nothing: the session has no transaction any more
      await dropped.enqueue('dropped', 'other');
      await dropped.query(`prepare transaction 'two'`);
      await dropped.commit();
      await next.enqueue('next', ['k', 'other']);
      const committed = next.commit();
      expect(await waitsForLock(harness, committed)).toBe(true);
      await harness.dataSource.query(`rollback prepared 'two'`);
      await harness.dataSource.query(`commit prepared 'one'`);
      await committed;
      expect(await readyTexts(harness)).toEqual(['k:prepared', 'k:next', 'other:next']);
    } finally {
      await harness.close();
    }
  });
});
