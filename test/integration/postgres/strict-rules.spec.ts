import { bucketOf } from '../../../lib/message/bucket-of.js';
import { itHoldsTheKeyOfARetry } from '../../contract/commit-order.contract.js';
import { OpenTransaction, readyTexts, waitsForLock } from '../../support/open-transactions.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'a strict order on PostgreSQL, rule by rule', () => {
  let harness: Harness;
  beforeAll(async () => {
    harness = await createHarness('postgres', { ordering: 'strict' });
  });
  afterAll(() => harness.close());
  afterEach(async () => {
    await OpenTransaction.endAll(); // of a test that failed
    await harness.dataSource.query('delete from outbox_ready; delete from outbox_parked');
  });
  const begin = (): Promise<OpenTransaction> => OpenTransaction.begin(harness);

  it('A3: who commits first comes first, whoever enqueued first; with plain inserts through the view among them', async () => {
    const [first, second, third] = [await begin(), await begin(), await begin()];
    await first.enqueue('first', 'k');
    const returned = await second.query(
      `insert into outbox_messages (topic, key, payload) values ('t', 'k', 'second') returning state, seq, bucket, created_at`,
    );
    expect(returned).toEqual([
      { state: 'ready', seq: null, bucket: bucketOf('k', 32), created_at: expect.any(Date) }, // its number comes with the commit
    ]);
    await third.enqueue('third', 'k');
    await third.commit();
    await second.commit();
    await first.commit();
    expect(await readyTexts(harness)).toEqual(['k:third', 'k:second', 'k:first']);
    expect(await harness.count('staged')).toBe(0);
  });

  it('keeps the order of a transaction within it, and takes back what a savepoint takes back', async () => {
    const one = await begin();
    await one.enqueue('1', ['b', 'a']);
    await one.query('savepoint s');
    await one.enqueue('lost', ['a', 'b']);
    await one.query('set constraints all immediate'); // moves them, and is taken back with them
    await one.query('rollback to savepoint s; set constraints all deferred');
    await one.enqueue('2', 'a');
    await one.commit();
    const other = await begin();
    await other.enqueue('lost', 'a');
    await other.rollback();
    expect(await readyTexts(harness)).toEqual(['b:1', 'a:1', 'a:2']);
    expect(await harness.count('staged')).toBe(0);
  });

  it('nobody waits for a key before the commit; then until the one in front is visible', async () => {
    const [first, second] = [await begin(), await begin()];
    await first.enqueue('first', 'k');
    await second.enqueue('second', 'k');
    await first.query('set constraints all immediate'); // as far as a commit goes before it is one
    const committed = second.commit();
    expect(await waitsForLock(harness, committed)).toBe(true);
    expect(await readyTexts(harness)).toEqual([]);
    await first.commit();
    await committed;
    expect(await readyTexts(harness)).toEqual(['k:first', 'k:second']);
  });

  it('A4: keys in opposite order do not deadlock', async () => {
    const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
    const [holder, ...others] = (await Promise.all(Array.from({ length: 6 }, begin))) as [
      OpenTransaction,
      ...OpenTransaction[],
    ];
    await holder.enqueue('0', keys);
    await holder.query('set constraints all immediate'); // holds all of them, so that the others set out at once
    for (const [i, other] of others.entries())
      for (const key of i % 2 === 0 ? keys : [...keys].reverse()) await other.enqueue(String(i + 1), key);
    const committed = Promise.all(others.map((other) => other.commit()));
    expect(await waitsForLock(harness, committed, others.length)).toBe(true);
    await holder.commit();
    await committed;
    expect((await readyTexts(harness)).length).toBe(6 * keys.length);
  });

  it('I6: a COMMIT waits for a key for as long as the outbox says, whatever the timeouts of its session; then it fails as a whole', async () => {
    const limit = (time: string) =>
      harness.dataSource.query(`alter function outbox_staged_move() set lock_timeout = '${time}'`);
    await limit('500ms'); // 10 s in all tables of the outbox, which a start insists on
    const [inFront, waiting] = [await begin(), await begin()];
    await inFront.enqueue('in front', 'k');
    await inFront.query('set constraints all immediate');
    await waiting.enqueue('waiting', 'k');
    await waiting.query(`set local lock_timeout = '20ms'; set local statement_timeout = '250ms'`);
    const since = performance.now();
    await expect(waiting.commit()).rejects.toMatchObject({ name: 'QueryFailedError', code: '55P03' });
    expect(performance.now() - since).toBeGreaterThan(450);
    await inFront.commit();
    expect(await readyTexts(harness)).toEqual(['k:in front']);
    expect(await harness.count('staged')).toBe(0);
    await limit('10s');
  });

  it('a transaction of many keys takes one lock for all of them', async () => {
    const many = Array.from({ length: 300 }, (_, i) => `key-${i}`);
    const [first, second, third] = [await begin(), await begin(), await begin()];
    await first.enqueue('first', many);
    await first.query('set constraints all immediate');
    const locks = (await first.query(
      `select mode from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`,
    )) as unknown[];
    expect(locks).toEqual([{ mode: 'ExclusiveLock' }]);
    await second.enqueue('second', 'key-7');
    await third.enqueue('third', [...many].reverse());
    const few = second.commit();
    expect(await waitsForLock(harness, few)).toBe(true);
    const commits = Promise.all([few, third.commit()]);
    await first.commit();
    await commits;
    const ofSeven = (await readyTexts(harness)).filter((text) => text.startsWith('key-7:'));
    expect(ofSeven[0]).toBe('key-7:first');
    expect([...ofSeven].sort()).toEqual(['key-7:first', 'key-7:second', 'key-7:third']);
  });

  it('what has no key, and what is scheduled, is not staged', async () => {
    const [first, second] = [await begin(), await begin()];
    await first.enqueue('later', 'k', { delay: 3_600_000 });
    await first.enqueue('free', 'k', { key: null });
    await first.query('set constraints all immediate');
    await second.enqueue('second', 'k');
    await second.commit(); // waits for nobody
    await first.commit();
    expect(await readyTexts(harness)).toEqual([':free', 'k:second']);
    expect(await harness.count('parked')).toBe(1);
  });

  it('also moves what is staged where triggers are off for replication', async () => {
    const transaction = await begin();
    await transaction.query('set local session_replication_role = replica');
    await transaction.enqueue('x', 'k');
    await transaction.commit();
    expect(await readyTexts(harness)).toEqual(['k:x']);
  });

  itHoldsTheKeyOfARetry(() => harness);
});
