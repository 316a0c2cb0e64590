import { OutboxTransactionConflictError } from '../../../lib/index.js';
import { outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { itHoldsTheKeyOfARetry } from '../../contract/commit-order.contract.js';
import { runScript } from '../../support/databases.js';
import { OpenTransaction, readyTexts, waitsForLock } from '../../support/open-transactions.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeOnMysqlFamily } from '../../support/services.js';

describeOnMysqlFamily('a strict order, rule by rule', (kind) => {
  let harness: Harness;
  beforeAll(async () => {
    harness = await createHarness(kind, { ordering: 'strict' });
  });
  afterAll(() => harness.close());
  afterEach(async () => {
    await OpenTransaction.endAll(); // of a test that failed
    for (const table of ['ready', 'parked']) await harness.dataSource.query(`delete from outbox_${table}`);
  });
  const begin = (): Promise<OpenTransaction> => OpenTransaction.begin(harness);

  it('A3: who enqueues for a key waits until the transaction in front has ended; other keys do not wait', async () => {
    const [first, second, third, fourth] = [await begin(), await begin(), await begin(), await begin()];
    await first.enqueue('first', 'k');
    await third.enqueue('third', ['other', 'another']);
    await fourth.enqueue('free', 'k', { key: null });
    await fourth.enqueue('later', 'k', { delay: 3_600_000 });
    const waiting = second.enqueue('second', 'k');
    expect(await waitsForLock(harness, waiting)).toBe(true);
    await third.commit();
    await fourth.commit();
    await first.commit();
    await waiting;
    await second.commit();
    const texts = await readyTexts(harness);
    expect(texts.filter((text) => text.startsWith('k:'))).toEqual(['k:first', 'k:second']);
    expect(texts.length).toBe(5);
  });

  it('a rollback frees the keys; one to a savepoint keeps them until the end', async () => {
    const [first, second, third] = [await begin(), await begin(), await begin()];
    await first.enqueue('lost', 'k');
    await first.rollback();
    await second.enqueue('kept', 'other');
    await second.query('savepoint s');
    await second.enqueue('lost', 'k');
    await second.query('rollback to savepoint s');
    const waiting = third.enqueue('third', 'k');
    expect(await waitsForLock(harness, waiting)).toBe(true);
    await second.commit();
    await waiting;
    await third.commit();
    expect(await readyTexts(harness)).toEqual(['other:kept', 'k:third']);
  });

  it('A4: the keys of one call are locked in one order, whatever theirs', async () => {
    const run = async (keys: readonly string[]): Promise<void> => {
      const transaction = await begin();
      await transaction.enqueue('x', keys);
      await transaction.commit();
    };
    const keys = Array.from({ length: 40 }, (_, i) => `key-${i}`);
    const orders = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? keys : [...keys].reverse()));
    await Promise.all(orders.map(run));
    expect((await readyTexts(harness)).length).toBe(320);
  });

  it('A4: two calls in opposite order deadlock: exactly one is ended, with an error that says to run it again, and nothing is lost', async () => {
    const [first, second] = [await begin(), await begin()];
    await first.enqueue('first', 'a');
    await second.enqueue('second', 'b');
    const results = await Promise.allSettled([first.enqueue('first', 'b'), second.enqueue('second', 'a')]);
    const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
    expect(errors).toEqual([expect.any(OutboxTransactionConflictError)]);
    expect(errors[0]).toMatchObject({
      code: 'TRANSACTION_CONFLICT',
      message: expect.stringContaining('Run the whole transaction again'),
      cause: { errno: 1213 },
    });
    const [ended, other, keys] =
      results[0].status === 'rejected' ? [first, second, ['a', 'b']] : [second, first, ['b', 'a']];
    await other.commit();
    await ended.rollback();
    const again = await begin();
    for (const key of keys) await again.enqueue('again', key);
    await again.commit();
    const texts = await readyTexts(harness);
    const name = other === first ? 'first' : 'second';
    for (const key of ['a', 'b']) {
      expect(texts.filter((text) => text.startsWith(`${key}:`))).toEqual([`${key}:${name}`, `${key}:again`]);
    }
  });

  it('a key that is held for too long is the same error, and the transaction goes on without the message', async () => {
    const [first, second] = [await begin(), await begin()];
    await first.enqueue('first', 'k');
    await second.query('set session innodb_lock_wait_timeout = 1');
    await expect(second.enqueue('second', 'k')).rejects.toMatchObject({
      code: 'TRANSACTION_CONFLICT',
      cause: { errno: 1205 },
    });
    await second.query('set session innodb_lock_wait_timeout = default');
    await second.enqueue('second', 'other');
    await second.commit();
    await first.commit();
    expect((await readyTexts(harness)).sort()).toEqual(['k:first', 'other:second']);
  });

  itHoldsTheKeyOfARetry(() => harness);

  it('locks that are not there are missed at the start and at the enqueue', async () => {
    const { dataSource, store, options } = harness;
    await store.setup.check(options);
    await dataSource.query('delete from outbox_key_locks');
    const missing = { code: 'SCHEMA_MISMATCH', message: expect.stringContaining('has 0 rows, not 65536') };
    await expect(store.setup.check(options)).rejects.toMatchObject(missing);
    const transaction = await begin();
    await expect(transaction.enqueue('x', 'k')).rejects.toMatchObject({ code: 'SCHEMA_MISMATCH' });
    await transaction.rollback();
    await dataSource.query('drop table outbox_key_locks');
    const gone = { code: 'SCHEMA_MISMATCH', message: expect.stringContaining('outbox_key_locks is missing') };
    await expect(store.setup.check(options)).rejects.toMatchObject(gone);
    await runScript(kind, dataSource, outboxSql('mysql', { ordering: 'strict' }).up);
    await store.setup.check(options);
  });
});
