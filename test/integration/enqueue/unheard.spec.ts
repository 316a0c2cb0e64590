import type { OutboxService } from '../../../lib/index.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { dialectOf, describeOnEach } from '../../support/services.js';

const message = (n: number) => ({ type: 'm', payload: n });
const FAILED = 'business';
const OVER = expect.objectContaining({ code: 'TRANSACTION_REQUIRED' }) as unknown;

const COMMENTED = ['/* audit */ rollback', '-- audit\nrollback', '/**/ /* ; */ -- x\n commit'];
const ENDS = {
  postgres: [
    ...COMMENTED,
    '/* a /* nested */ comment */ rollback',
    ';rollback',
    'select 1; rollback',
    "select ';'; /* audit */ commit; select 2",
  ],
  mysql: [
    ...COMMENTED,
    '# audit\nrollback',
    '/*! rollback */',
    'truncate table scratch',
    'create table if not exists scratch (id int)',
    'create or replace view seen as select 1',
    'lock tables scratch write, outbox_ready write, thing write, outbox_parked write, outbox_dedup write',
    'analyze table scratch',
    '/* nightly */ check table scratch',
    'optimize table scratch',
    'call truncates()',
    'call truncates_and_reads()',
    'call commits()',
  ],
} as const;

/** TypeORM takes the transaction for active, and sends its ROLLBACK later. */
describeOnEach(
  [],
  'a statement that ends the transaction and does not look like it,, and what is enqueued behind it',
  (kind) => {
    const db = useEnqueueDatabase(kind);
    let outbox: OutboxService;
    beforeAll(async () => {
      outbox = db.outbox();
      await db.dataSource.query('create table scratch (id int)');
      if (kind === 'postgres') return;
      await db.dataSource.query('create procedure commits() begin commit; end');
      await db.dataSource.query('create procedure truncates() begin truncate table scratch; end');
      await db.dataSource.query(
        'create procedure truncates_and_reads() begin truncate table scratch; select 1 as one; end',
      );
    });

    const ends = [...ENDS[dialectOf(kind)], ...(kind === 'mariadb' ? ["execute immediate 'commit'"] : [])];
    it.each(ends)('A8: is refused, and not committed by itself: %j', async (sql) => {
      const transaction = db.dataSource.transaction(async (manager) => {
        await db.addThing(manager);
        await manager.query(sql);
        const both = [1, 2].map((n) => outbox.enqueue(message(n), { manager }));
        const answers = await Promise.allSettled(both);
        if (kind !== 'postgres') await manager.query('unlock tables');
        expect(answers).toMatchObject(Array(2).fill({ status: 'rejected', reason: OVER }));
        throw new Error(FAILED);
      });
      await expect(transaction).rejects.toThrow(FAILED);
      expect(await db.rows()).toEqual([]);
    });

    it('A8: nor is what is enqueued while it is on its way', async () => {
      const answers: unknown[] = [];
      const transaction = db.dataSource.transaction(async (manager) => {
        await db.addThing(manager);
        const sql = kind === 'postgres' ? 'select 1; rollback' : 'truncate table scratch';
        answers.push(...(await Promise.allSettled([manager.query(sql), outbox.enqueue(message(1), { manager })])));
        throw new Error(FAILED);
      });
      await expect(transaction).rejects.toThrow(FAILED);
      expect(answers).toMatchObject([{ status: 'fulfilled' }, { status: 'rejected', reason: OVER }]);
      expect(await db.rows()).toEqual([]);
    });

    it('a statement that only looks like it costs the enqueue nothing but a question', async () => {
      await db.dataSource.transaction(async (manager) => {
        await manager.query("select '; rollback'");
        await manager.transaction(() => db.addThing(manager));
        await outbox.enqueue(message(1), { manager });
      });
      expect([(await db.rows()).length, await db.things()]).toEqual([1, 1]);
    });

    it('any other statement does not even cost that', async () => {
      const runner = db.dataSource.createQueryRunner();
      const sent: string[] = [];
      const client = (await runner.connect()) as { query(asked: unknown, ...rest: unknown[]): unknown };
      const { query } = client;
      client.query = (asked, ...rest) => {
        sent.push(typeof asked === 'string' ? asked : JSON.stringify(asked));
        return query.call(client, asked, ...rest);
      };
      try {
        await runner.startTransaction('SERIALIZABLE');
        for (const sql of [
          'select 1',
          'select 1;',
          '/* committed */ select 1 -- rollback',
          "select ';;'",
          'insert into scratch (id) values (1)',
          'update scratch set id = 2 where id = 1',
          'delete from scratch where id = 7',
        ])
          await runner.query(sql);
        await runner.manager.transaction((inner) => outbox.enqueue(message(1), { manager: inner }));
        await outbox.enqueue(message(2), { manager: runner });
        await runner.commitTransaction();
      } finally {
        client.query = query;
        await runner.release();
      }
      expect(sent.filter((sql) => sql.includes('outbox_ready')).length).toBeGreaterThanOrEqual(2);
      expect(sent.filter((sql) => sql.includes('outbox_probe'))).toEqual([]);
    });

    it('a failure that a savepoint mends is as it was', async () => {
      await db.dataSource.transaction(async (manager) => {
        const inner = manager.transaction(async (nested) => {
          await expect(nested.query("select '; rollback' from nowhere")).rejects.toThrow();
          await outbox.enqueue(message(1), { manager: nested });
          throw new Error(FAILED);
        });
        // PostgreSQL takes nothing more before the savepoint.
        await expect(inner).rejects.toThrow(kind === 'postgres' ? 'current transaction is aborted' : FAILED);
        await outbox.enqueue(message(2), { manager });
      });
      expect(await db.rows()).toHaveLength(1);
    });
  },
);
