import { randomUUID } from 'node:crypto';
import type { OutboxMessage } from '../../../lib/index.js';
import type { MysqlStore } from '../../../lib/store/mysql/store.js';
import { statement } from '../../../lib/store/sql.js';
import { settled, StoreRun } from '../../../lib/testing/store-contract/harness.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { describeOnMysqlFamily } from '../../support/services.js';

/** However long a machine stands still in one of its transactions. */
const LIMITS = { statementTimeout: 120_000, idleWithLocks: 120_000 };

describeOnMysqlFamily('what a transaction of the relay holds', (kind) => {
  const stores = new MariaDbStores(kind, LIMITS, 'set session innodb_lock_wait_timeout = 2');
  const run = new StoreRun(stores, globalThis as never);
  let store: MysqlStore;
  beforeAll(async () => {
    await run.start();
    store = run.store as MysqlStore;
  });
  afterAll(() => run.stop());

  it('B2: its leases, also when they are over: until it ends nobody takes them', async () => {
    const { transport, leases } = await run.owned();
    const request = { owner: randomUUID(), transport, leaseMs: 60_000, limit: 100 };
    // The other looks an hour later, when they are over.
    const later = statement(undefined, 'set timestamp = unix_timestamp() + 3600').bind();
    await (run.other as MysqlStore).database.connection('lease').run(later);
    await store.database.connection('settle').run(statement(undefined, 'select 1').bind()); // connected
    await store.database.connection('settle').transaction(async (tx) => {
      expect((await store.ready.parts.settle.fence.hold(tx, run.owner, leases, true)).size).toBe(leases.length);
      expect(await run.other.leases.acquire(request)).toEqual([]);
    });
    expect(await run.other.leases.acquire(request)).toHaveLength(leases.length);
  });

  it('no place in which it looked for a row and found none: writers insert there', async () => {
    const owned = await run.owned();
    await owned.insert({});
    const [first] = (await owned.ready()) as [OutboxMessage];
    const nowhere = { ...settled(first), seq: String(BigInt(first.seq) + 1_000n) };
    await store.database.connection('settle').transaction(async (tx) => {
      expect(await store.ready.parts.settle.lockReady(tx, owned.transport, [nowhere])).toEqual([]);
      await owned.insert({}); // who waits fails: the transaction goes on only after it
    });
    expect(await owned.readyIds()).toHaveLength(2);
  });
});
