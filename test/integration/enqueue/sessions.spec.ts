import type { QueryRunner } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { TypeOrm } from '../../../lib/data-layers/typeorm/typeorm.js';
import type { SqlExecutor } from '../../../lib/store/executor.js';
import { createEnqueueDatabase, useEnqueueDatabase } from '../../support/enqueue-database.js';
import { describeWith, describeOnMysqlFamily } from '../../support/services.js';
import { until } from '../../support/until.js';

const MIB = 1024 * 1024;
const paid = (dedupKey: string) => ({ type: 'paid', payload: 1, dedupKey });

describeWith('postgres', 'an array of large messages', () => {
  it('H8: is sent in statements of some 8 MiB, and written as a whole', async () => {
    const db = await createEnqueueDatabase('postgres');
    try {
      const sizes: number[] = [];
      const size = (value: unknown): number => (value instanceof Uint8Array ? value.byteLength : 0);
      class Measured extends TypeOrm {
        override async require(handle: unknown): Promise<Awaited<ReturnType<TypeOrm['require']>>> {
          const session = await super.require(handle);
          const { executor } = session;
          const run: SqlExecutor['run'] = (sql) => {
            sizes.push(sql.values.reduce<number>((sum, value) => sum + size(value), 0) / MIB);
            return executor.run(sql);
          };
          return Object.defineProperty(session, 'executor', { value: { run } });
        }
      }
      const outbox = db.outbox({ dataLayer: new Measured(db.dataSource) });
      const payload = Buffer.alloc(MIB, 1);
      await db.dataSource.transaction((manager) =>
        outbox.enqueue(
          Array.from({ length: 18 }, () => ({ type: 'large', payload })),
          { manager },
        ),
      );
      expect(sizes).toEqual([8, 8, 2]);
      expect(await db.types()).toHaveLength(18);
    } finally {
      await db.drop();
    }
  });
});

describeOnMysqlFamily('dedup keys under settings of the session, and under conflicts', (kind) => {
  const db = useEnqueueDatabase(kind);
  let outbox: OutboxService;
  beforeAll(() => void (outbox = db.outbox()));

  it('H9: are all seen with sql_select_limit = 1: nothing is written twice', async () => {
    const once = (): Promise<string[]> =>
      db.dataSource.transaction(async (manager) => {
        await manager.query('set sql_select_limit = 1');
        const ids = await outbox.enqueue([paid('a'), paid('b'), paid('c')], { manager });
        await manager.query('set sql_select_limit = default');
        return ids;
      });
    const first = await once();
    expect(await once()).toEqual(first);
    expect(await db.rows()).toHaveLength(3);
  });

  // MySQL has no such setting: its statements see what was committed last, as MariaDB's do without it.
  const onMariaDb = kind === 'mariadb' ? it : (): void => undefined;
  onMariaDb(
    'H10: that somebody claimed since the snapshot, with innodb_snapshot_isolation, are a TRANSACTION_CONFLICT',
    async () => {
      const runner = db.dataSource.createQueryRunner();
      try {
        await runner.query('set innodb_snapshot_isolation = on');
        await runner.startTransaction('REPEATABLE READ');
        await runner.query('select * from thing');
        await db.dataSource.transaction((manager) => outbox.enqueue(paid('a'), { manager }));
        await expect(outbox.enqueue(paid('a'), { manager: runner })).rejects.toMatchObject({
          code: 'TRANSACTION_CONFLICT',
        });
        await runner.rollbackTransaction();
        await runner.query('set innodb_snapshot_isolation = off');
      } finally {
        await runner.release();
      }
      expect(await db.rows()).toHaveLength(1);
    },
  );

  it('H10: that two transactions claim in opposite orders end one of them with TRANSACTION_CONFLICT', async () => {
    const [one, two] = [db.dataSource.createQueryRunner(), db.dataSource.createQueryRunner()];
    try {
      await one.startTransaction();
      await two.startTransaction();
      await outbox.enqueue(paid('a'), { manager: one });
      await outbox.enqueue(paid('b'), { manager: two });
      const crossed = [outbox.enqueue(paid('b'), { manager: one }), outbox.enqueue(paid('a'), { manager: two })];
      // The victim's ROLLBACK is the database's own: the other one goes on.
      const refused = (await Promise.allSettled(crossed)).flatMap((claimed) =>
        claimed.status === 'rejected' ? [claimed.reason] : [],
      );
      expect(refused).toMatchObject([{ code: 'TRANSACTION_CONFLICT' }]);
    } finally {
      await Promise.allSettled([one.rollbackTransaction(), two.rollbackTransaction()]);
      await Promise.all([one.release(), two.release()]);
    }
    expect(await db.rows()).toEqual([]);
  });

  it('H16: of which the first claim is rolled back go to one of those who wait; whoever InnoDB ends is told, and has the id when it runs again', async () => {
    const [first, ...others] = Array.from({ length: 3 }, () => db.dataSource.createQueryRunner()) as [
      QueryRunner,
      ...QueryRunner[],
    ];
    await first.startTransaction();
    await outbox.enqueue(paid('a'), { manager: first });
    const ids: string[] = [];
    for (const other of others) {
      await other.startTransaction();
      const [{ id }] = (await other.query('select connection_id() as id')) as [{ id: string }];
      ids.push(id);
    }
    const refused: unknown[] = [];
    const run = async (runner: QueryRunner): Promise<string> => {
      try {
        const id = await outbox.enqueue(paid('a'), { manager: runner });
        await runner.commitTransaction();
        return id;
      } catch (error) {
        refused.push(error);
        await runner.rollbackTransaction().catch(() => undefined);
        if (refused.length > 10) throw error;
        await runner.startTransaction();
        return run(runner);
      }
    };
    const waiting = `select count(*) as n from information_schema.innodb_trx where trx_state = 'LOCK WAIT' and trx_mysql_thread_id in (${ids.join(', ')})`;
    const claimed = Promise.all(others.map(run));
    // InnoDB makes its list of transactions anew 100 ms after the last look at it: who asks more often sees the first for ever.
    await until(async () => Number((await db.dataSource.query(waiting))[0].n) === others.length, 60_000, 150);
    await first.rollbackTransaction();
    const [id, ...same] = await claimed;
    await Promise.all([first, ...others].map((runner) => runner.release()));
    expect(refused).toMatchObject(refused.map(() => ({ code: 'TRANSACTION_CONFLICT' })));
    expect(same).toEqual(same.map(() => id));
    expect((await db.rows()).map((row) => row.id)).toEqual([id]);
  });
});
