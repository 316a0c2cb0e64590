import { randomUUID } from 'node:crypto';
import { OutboxCleaner } from '../../../lib/clean/cleaner.js';
import type { ConnectionRole, SqlConnection, SqlDatabase } from '../../../lib/store/executor.js';
import { openMysqlDatabase } from '../../../lib/data-layers/typeorm/mysql.js';
import { MysqlDedupCleaner } from '../../../lib/store/mysql/ops/clean.js';
import { MysqlStore } from '../../../lib/store/mysql/store.js';
import { series } from '../../support/databases.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { RecordedHooks } from '../../support/relay.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const HOUR = 3_600_000;

/** Counts the statements of the role that cleans. */
function counting(real: SqlDatabase): { database: SqlDatabase; take: () => number } {
  let count = 0;
  const database: SqlDatabase = Object.create(real);
  database.connection = (role: ConnectionRole) => {
    const connection = real.connection(role);
    const counted: SqlConnection = Object.create(connection);
    counted.run = (sql) => {
      count += role === 'admin' ? 1 : 0;
      return connection.run(sql);
    };
    return counted;
  };
  const take = (): number => {
    const taken = count;
    count = 0;
    return taken;
  };
  return { database, take };
}

describeOnMysqlFamily('dedup keys of messages that wait for a year', (kind) => {
  const stores = new MariaDbStores(kind);
  let store: MysqlStore;
  let take: () => number;
  let cleaner: OutboxCleaner;

  beforeEach(async () => {
    await stores.start();
    const counted = counting(openMysqlDatabase(stores.application, stores.storeSettings));
    take = counted.take;
    store = new MysqlStore(counted.database, stores.storeSettings);
    await store.setup.transports(['default'], 'default');
    const retention = { published: HOUR, dead: null, dedup: HOUR, audit: HOUR, every: HOUR, pause: 0 };
    cleaner = new OutboxCleaner(store, new RecordedHooks(), retention, false);
  });
  afterEach(async () => {
    await store.close();
    await stores.stop();
  });

  const idOf = (n: string): string => `concat('00000000-0000-4000-8000-', lpad(${n}, 12, '0'))`;
  /** Messages for next year, in the order of their keys. */
  async function scheduled(count: number): Promise<void> {
    await stores.application.query(
      `insert into outbox_parked (transport, bucket, seq, id, topic, type, state, blocking, due_at)
       select 0, 0, 0, ${idOf('seq')}, 't', 't', 1, 0, utc_timestamp(6) + interval 1 year from ${series(kind, count)}`,
    );
    await stores.application.query(
      `insert into outbox_dedup (dedup_key, id, bucket, claim, created_at)
       select concat('k', seq), ${idOf('seq')}, 0, '', '2020-01-01' + interval seq second from ${series(kind, count)}`,
    );
  }
  const settled = (key: string): Promise<unknown> =>
    stores.application.query(
      `insert into outbox_dedup (dedup_key, id, bucket, claim, created_at) values (?, ?, 0, '', '2022-01-01')`,
      [key, randomUUID()],
    );

  it('do not keep a younger one for ever', async () => {
    await scheduled(12_000);
    await settled('younger');
    let removed = 0;
    for (let pass = 0; pass < 5 && removed === 0; pass++) removed += (await cleaner.runOnce()).dedup;
    expect(removed).toBe(1);
    // One that was come past, and is settled since.
    await stores.application.query(`delete from outbox_parked where id = ${idOf('5')}`);
    expect(await cleaner.runOnce()).toMatchObject({ dedup: 1 });
    expect(await cleaner.runOnce()).toMatchObject({ dedup: 0 });
  });

  it('are come past by so many in one pass, and the next one goes on behind them', async () => {
    await scheduled(130_000);
    await settled('younger');
    take();
    expect(await cleaner.runOnce()).toMatchObject({ dedup: 0 });
    expect(take()).toBeLessThan(600);
    expect(await cleaner.runOnce()).toMatchObject({ dedup: 1 });
    expect(take()).toBeLessThan(200);
  });

  it('stay when somebody used the key again since it was looked at', async () => {
    await settled('again');
    jest.spyOn(MysqlDedupCleaner.prototype, 'ready').mockImplementationOnce(async () => {
      // Another instance cleans it, and an application enqueues.
      await stores.application.query('delete from outbox_dedup');
      await stores.application.query(
        `insert into outbox_dedup (dedup_key, id, bucket, claim) values ('again', ${idOf('1')}, 0, 'of this call')`,
      );
      return new Set();
    });
    expect(await cleaner.runOnce()).toMatchObject({ dedup: 0 });
    expect(await stores.application.query('select dedup_key from outbox_dedup')).toHaveLength(1);
  });

  it('that a transaction of the application holds are not waited for', async () => {
    await settled('held');
    await settled('free');
    const holder = stores.application.createQueryRunner();
    await holder.startTransaction('READ COMMITTED');
    await holder.query(`select * from outbox_dedup force index (primary) where dedup_key = 'held' for update`);
    expect(await cleaner.runOnce()).toMatchObject({ dedup: 1 });
    await holder.rollbackTransaction();
    await holder.release();
    expect(await cleaner.runOnce()).toMatchObject({ dedup: 1 });
  });
});
