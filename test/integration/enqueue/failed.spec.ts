import type { QueryRunner } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { useEnqueueDatabase, type EnqueueDatabase } from '../../support/enqueue-database.js';
import { describeWith, describeOnMysqlFamily } from '../../support/services.js';

/** In strict order what has a key takes another way: its key is locked, or it is staged first. */
const message = (type: string, more: object = {}) => ({ type, key: 'k', payload: 1, ...more });
const ORDERINGS = ['key', 'strict'] as const;
const ROLLBACK_ONLY = { code: 'ROLLBACK_ONLY' };

/** A transaction that holds what `sql` locks while `work` runs; `work` may end it sooner. */
async function whileLocked(
  db: EnqueueDatabase,
  sql: string,
  work: (unlock: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const other = db.dataSource.createQueryRunner();
  await other.startTransaction('REPEATABLE READ');
  const unlock = async (): Promise<void> => {
    if (other.isTransactionActive) await other.rollbackTransaction();
  };
  try {
    await other.query(sql);
    await work(unlock);
  } finally {
    await unlock();
    await other.release();
  }
}

describe.each(ORDERINGS)('ordering %s: an enqueue of which a statement is undone', (ordering) => {
  describeOnMysqlFamily('while the transaction goes on', (kind) => {
    const db = useEnqueueDatabase(kind, 4, ordering);
    let outbox: OutboxService;
    beforeAll(() => void (outbox = db.outbox({ options: { maxPayloadBytes: 64 * 1024 * 1024 } })));

    /** Those tried again have no limit. MySQL waits for a second at least, and limits the time of reads alone. */
    const LIMITS = {
      mariadb: [
        ['after a lock wait', 'set innodb_lock_wait_timeout = 0', /lock wait/i],
        ['after max_statement_time', 'set max_statement_time = 1', /max_statement_time/i],
      ],
      mysql: [['after a lock wait', 'set innodb_lock_wait_timeout = 1', /lock wait/i]],
    } as const;
    const RESET = {
      mariadb: 'innodb_lock_wait_timeout = 50, max_statement_time = 0',
      mysql: 'innodb_lock_wait_timeout = 50',
    };
    it.each(LIMITS[kind])('H2: leaves its dedup key free %s: tried again it is written', async (_, setting, error) => {
      await whileLocked(db, 'select * from outbox_ready where transport = 0 for update', async (unlock) => {
        await db.dataSource.transaction(async (manager) => {
          await db.addThing(manager);
          await manager.query(setting);
          const enqueue = () => outbox.enqueue(message('paid', { dedupKey: 'order 1' }), { manager });
          await expect(enqueue()).rejects.toThrow(error);
          await unlock();
          await manager.query(`set ${RESET[kind]}`);
          await enqueue();
        });
      });
      expect([await db.types(), await db.things()]).toEqual([['paid'], 1]);
    });
  });
});

describe.each(ORDERINGS)('ordering %s: an enqueue that failed on this side', (ordering) => {
  describeWith('postgres', 'in a transaction that PostgreSQL has not aborted', () => {
    const table = ordering === 'strict' ? 'outbox_staged' : 'outbox_ready';
    const db = useEnqueueDatabase('postgres', 4, ordering);
    let outbox: OutboxService;
    let runner: QueryRunner;
    beforeAll(() => void (outbox = db.outbox()));
    beforeEach(async () => {
      runner = db.dataSource.createQueryRunner();
    });
    afterEach(async () => {
      await runner.release();
      expect(await db.staged()).toBe(0);
    });

    /** As `extra: { query_timeout }` of a DataSource. */
    async function givingUpAfter(ms: number | undefined): Promise<void> {
      const client = (await runner.connect()) as { connectionParameters: { query_timeout?: number | undefined } };
      client.connectionParameters.query_timeout = ms;
    }
    const transaction = (work: () => Promise<unknown>): Promise<unknown> =>
      runner.manager.transaction(async (manager) => {
        await db.addThing(manager);
        await work();
      });

    it('H4: does not keep its dedup key: the transaction cannot be committed, the next one writes the message', async () => {
      const paid = (options: { manager: QueryRunner }) =>
        outbox.enqueue(message('paid', { dedupKey: 'order 1' }), options);
      const other = db.dataSource.createQueryRunner();
      await other.startTransaction();
      await paid({ manager: other });
      const ended = transaction(async () => {
        await givingUpAfter(150);
        await expect(paid({ manager: runner })).rejects.toThrow('Query read timeout');
        await other.rollbackTransaction();
        await givingUpAfter(undefined);
        await expect(paid({ manager: runner })).rejects.toMatchObject(ROLLBACK_ONLY);
      });
      await expect(ended).rejects.toMatchObject(ROLLBACK_ONLY);
      await other.release();
      expect([await db.types(), await db.things()]).toEqual([[], 0]);
      await transaction(() => paid({ manager: runner }));
      expect([await db.types(), await db.things()]).toEqual([['paid'], 1]);
    });

    it('H4: is not committed by its caller, although its INSERT comes later', async () => {
      await whileLocked(db, `lock table ${table} in share mode`, async (unlock) => {
        const ended = transaction(async () => {
          await givingUpAfter(150);
          await expect(outbox.enqueue(message('failed'), { manager: runner })).rejects.toThrow('Query read timeout');
          await unlock();
          await givingUpAfter(undefined);
        });
        await expect(ended).rejects.toMatchObject(ROLLBACK_ONLY);
      });
      expect([await db.types(), await db.things()]).toEqual([[], 0]);
    });

    it('H4: goes with its savepoint, and the transaction around it commits', async () => {
      await whileLocked(db, `lock table ${table} in share mode`, async (unlock) => {
        await transaction(async () => {
          await runner.query('savepoint mine');
          await givingUpAfter(150);
          await expect(outbox.enqueue(message('failed'), { manager: runner })).rejects.toThrow('Query read timeout');
          await unlock();
          await givingUpAfter(undefined);
          await runner.query('savepoint later');
          await runner.query('rollback to savepoint later');
          await expect(runner.query('select 1')).rejects.toMatchObject(ROLLBACK_ONLY);
          await expect(runner.query('select 1; commit')).rejects.toMatchObject(ROLLBACK_ONLY);
          await runner.query('rollback to savepoint mine');
          await outbox.enqueue(message('written'), { manager: runner });
        });
      });
      expect([await db.types(), await db.things()]).toEqual([['written'], 1]);
    });

    it('H4: that a tracer changed the text of a prepared statement costs one transaction, not all', async () => {
      const client = (await runner.connect()) as { query(asked: unknown, ...rest: unknown[]): unknown };
      const { query } = client;
      let traced = 0;
      client.query = (asked, ...rest) => {
        const text = (asked as { text?: string }).text;
        return query.call(
          client,
          text === undefined ? asked : { ...(asked as object), text: `${text} /* ${(traced += 1)} */` },
          ...rest,
        );
      };
      const types = ['first', 'second', 'third'];
      const ends: string[] = [];
      for (const type of types) {
        for (let end = ''; end !== 'committed'; ends.push(end)) {
          const enqueue = () => outbox.enqueue(message(type, { dedupKey: type }), { manager: runner });
          const ended = transaction(() => enqueue().catch(() => undefined));
          end = await ended.then(
            () => 'committed',
            (error: { code?: string }) => String(error.code),
          );
        }
      }
      client.query = query;
      await runner.query('discard all');
      expect(ends.sort()).toEqual(['ROLLBACK_ONLY', 'committed', 'committed', 'committed']);
      expect([await db.types(), await db.things()]).toEqual([types, 3]);
    });
  });
});
