import type { MysqlStore } from '../../../lib/store/mysql/store.js';
import type { WakeSql } from '../../../lib/store/sql/wake.js';
import { repark, StoreRun } from '../../../lib/testing/store-contract/harness.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const LATER = 3_600_000;

/** The first row of a key is read without a lock before it is made due. */
describeOnMysqlFamily('waking a key', (kind) => {
  const stores = new MariaDbStores(kind);
  const run = new StoreRun(stores, globalThis as never);
  beforeAll(() => run.start());
  afterAll(() => run.stop());
  afterEach(() => jest.restoreAllMocks());

  it('leaves alone a first row that was tried and failed since it was looked at', async () => {
    const owned = await run.owned();
    await owned.insert({}, {});
    const [first, second] = await owned.ready();
    await owned.park([first as never], { state: 'blocked', delay: null });
    await owned.park([second as never], { state: 'dead', delay: null });
    const { sql } = (run.other as MysqlStore).operators.parts.wake as unknown as { sql: WakeSql };
    const look = sql.first;
    jest.spyOn(sql, 'first').mockImplementationOnce(async (...args) => {
      const heads = await look(...args);
      const { messages } = await owned.take(['k']);
      expect(messages.map(({ id }) => id)).toEqual([first?.id]);
      const failed = messages.map((message) => repark(message, { delay: LATER }));
      expect((await run.store.parked.repark(run.owner, owned.leases, failed)).affected).toBe(1);
      return heads;
    });
    expect((await run.operator.discard({ ids: [second?.id as string] })).changed).toEqual([second?.id]);
    expect((await owned.due()).rows).toEqual([]);
  });
});
