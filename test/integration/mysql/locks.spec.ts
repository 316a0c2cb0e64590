import type { OutboxMessage } from '../../../lib/index.js';
import { TABLE_NAMES } from '../../../lib/store/names.js';
import { randomUUID } from 'node:crypto';
import type { QueryRunner } from 'typeorm';
import { leave, StoreRun, type OwnedTransport } from '../../../lib/testing/store-contract/harness.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { describeOnMysqlFamily } from '../../support/services.js';

/** Of them, each row that belongs to somebody else is locked, as by a process that froze in the middle of its transaction. */
const LOCKED = ['ready', 'parked', 'archive', 'leases'] as const;

/**
 * A locking statement locks every row that it looks at. In tables of a few rows the optimizer would rather read all than
 * look up one, and then each instance would wait for the open transactions of all others, and of the application.
 */
describeOnMysqlFamily('locks in small tables', (kind) => {
  /** The relay's own sessions wait for two seconds. */
  const stores = new MariaDbStores(kind, { buckets: 2 }, 'set session innodb_lock_wait_timeout = 2');
  const run = new StoreRun(stores, globalThis as never);
  const them = new StoreRun(stores, globalThis as never);
  let mine: OwnedTransport;
  let holder: QueryRunner;
  beforeAll(async () => {
    await run.start();
    them.store = run.other;
  });
  afterAll(() => run.stop());

  /** Of somebody else, one of each kind; then the same of ours, and statistics that say how few rows there are. */
  async function fill(owned: OwnedTransport): Promise<void> {
    await owned.parked({ key: 'dead' }, { state: 'dead' });
    await owned.parked({ key: 'waiting' });
    await owned.insert({ key: 'published' });
    await owned.settle(await owned.ready(), 'archive');
    await owned.insert({ key: 'ready', dedupKey: owned.name });
  }
  beforeEach(async () => {
    for (const table of ['ready', 'parked', 'archive', 'dedup', 'leases'])
      await stores.application.query(`delete from outbox_${table}`);
    const theirs = await them.owned();
    mine = await run.owned();
    await fill(theirs);
    await fill(mine);
    for (const table of TABLE_NAMES) await stores.application.query(`analyze table outbox_${table}`);
    holder = stores.application.createQueryRunner();
    await holder.query('set session transaction isolation level read committed');
    await holder.startTransaction();
    for (const table of LOCKED) {
      const rows = await holder.query(`select * from outbox_${table} where transport = ? for update`, [
        theirs.transport,
      ]);
      expect(rows.length).toBeGreaterThan(0);
    }
    await holder.query('select * from outbox_dedup force index (primary) where dedup_key = ? for update', [
      theirs.name,
    ]);
  });
  afterEach(async () => {
    await holder.rollbackTransaction();
    await holder.release();
  });

  const one = async (key: string) => {
    const sql = 'select id from outbox_parked where transport = ? and `key` = ?';
    return { ids: [(await stores.application.query(sql, [mine.transport, key]))[0].id as string] };
  };
  const taken = async () => (await mine.take()).messages;
  const affected = async (report: Promise<{ affected: number }>): Promise<number> => (await report).affected;
  const done = async (report: Promise<{ done: number }>): Promise<number> => (await report).done;
  async function repark(): Promise<number> {
    const [{ parkedId, bucket, attempts }] = (await taken()) as [OutboxMessage];
    const entry = {
      state: 'waiting',
      blocks: true,
      attempts: 2,
      attemptsBefore: attempts,
      delay: 0,
      error: null,
    } as const;
    return affected(
      run.store.parked.repark(run.owner, mine.leases, [{ parkedId: parkedId as string, bucket, ...entry }]),
    );
  }
  async function acquire(): Promise<number> {
    await run.store.leases.giveBack(run.owner, mine.leases);
    return (await mine.acquire(run.other, 60_000)).length;
  }
  async function announce(): Promise<number> {
    const letters = await run.store.parked.unannouncedDead([mine.transport], 9);
    await run.store.parked.markAnnounced(letters);
    return letters.length - (await run.store.parked.unannouncedDead([mine.transport], 9)).length;
  }
  async function lockRows(): Promise<number> {
    let locked = 0;
    await run.store.rowLocks.withLockedRows(
      { transport: mine.transport, limit: 9, onPublished: 'archive' },
      async (rows) => {
        locked = rows.length;
        return { published: rows, parked: [], reparked: [] };
      },
    );
    return locked;
  }
  async function unless(failure: Promise<unknown>): Promise<number> {
    await failure;
    return 1;
  }

  it.each<[string, number, () => Promise<number>]>([
    ['settle', 1, async () => affected(mine.settle(await mine.ready()))],
    ['settle into the archive', 1, async () => affected(mine.settle(await mine.ready(), 'archive'))],
    ['park', 1, async () => affected(mine.park(await mine.ready()))],
    ['take', 1, async () => (await taken()).length],
    ['repark', 1, repark],
    ['settle what was parked', 1, async () => affected(mine.settle(await taken()))],
    ['archive what was parked', 1, async () => affected(mine.settle(await taken(), 'archive'))],
    ['mark as announced', 1, announce],
    ['renew', 2, async () => (await run.store.leases.renew(run.owner, 60_000)).length],
    ['give back and acquire', 2, acquire],
    [
      'note a trial',
      1,
      async () => Number(await run.store.leases.noteTrial(run.owner, mine.leases[0] as never, randomUUID())),
    ],
    ['expire', 0, async () => (await run.store.leases.expire()).length],
    ['leave', 1, () => unless(leave(run.store, run.owner))],
    ['enqueue with a dedup key', 1, async () => (await mine.insert({ dedupKey: randomUUID() })).length],
    ['enqueue with a dedup key that is there', 1, async () => (await mine.insert({ dedupKey: mine.name })).length],
    ['clean the archive', 1, async () => (await run.store.cleaner.clean('archive', 0, 1)).removed],
    ['clean the dead', 1, async () => (await run.store.cleaner.clean('dead', 0, 1)).removed],
    ['clean the dedup keys', 0, async () => (await run.store.cleaner.clean('dedup', 0, 9)).removed], // their messages are not settled
    ['requeue', 1, async () => done(run.operator.requeue(await one('dead')))],
    ['discard', 1, async () => done(run.operator.discard(await one('dead')))],
    ['cancel', 1, async () => done(run.operator.cancel(await one('waiting')))],
    ['release', 1, () => run.operator.release('dead', mine.transport)],
    ['requeue by key', 1, () => done(run.operator.requeue({ key: 'dead', transport: mine.transport }))],
    ['lock rows', 2, lockRows],
  ])('B10: %s waits for no row of somebody else', async (_, rows, act) => {
    expect(await act()).toBe(rows); // who waits fails: the holder holds on
  });
});
