import type { EntityManager, QueryRunner } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { createEnqueueDatabase, useEnqueueDatabase, type EnqueueDatabase } from '../../support/enqueue-database.js';
import { waitsForLock } from '../../support/open-transactions.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const message = (n: number) => ({ type: 'm', payload: n });
const FAILED = 'business';
const onMariadb = ({ dataSource }: EnqueueDatabase) => ({ dataSource, database: { kind: 'mariadb' } }) as const;

describeOnMysqlFamily('a deadlock, which ends the whole transaction', (kind) => {
  const db = useEnqueueDatabase(kind);
  let outbox: OutboxService;
  beforeAll(async () => {
    outbox = db.outbox();
    await db.dataSource.query('create table pair (id int primary key, n int not null) engine = innodb');
    await db.dataSource.query('insert into pair values (1, 0), (2, 0)');
  });

  /** `then` runs in a transaction whose last statement, which is under way when it is called, is the victim. */
  const victim = (then: (manager: EntityManager, statement: Promise<unknown>) => Promise<unknown>): Promise<void> =>
    deadlock((manager, statement) => then(manager, statement()));
  async function deadlock(
    then: (manager: EntityManager, statement: () => Promise<unknown>) => Promise<unknown>,
  ): Promise<void> {
    const other = db.dataSource.createQueryRunner();
    await other.startTransaction();
    try {
      // The one that has written less is the victim.
      for (let n = 0; n < 50; n += 1) await db.addThing(other);
      await other.query('update pair set n = 1 where id = 2');
      await db.dataSource.transaction(async (manager) => {
        await manager.query('update pair set n = 2 where id = 1');
        const waiting = other.query('update pair set n = 1 where id = 1');
        expect(await waitsForLock(onMariadb(db), waiting)).toBe(true);
        await then(manager, () => manager.query('update pair set n = 2 where id = 2'));
        await waiting;
      });
    } finally {
      await other.rollbackTransaction();
      await other.release();
    }
  }
  const GONE = {
    code: 'TRANSACTION_REQUIRED',
    message: expect.stringContaining('rolled the transaction back') as string,
  };

  it.each<[string, (manager: EntityManager, statement: Promise<unknown>) => Promise<unknown>]>([
    [
      'that the application caught',
      async (manager, statement) => {
        await expect(statement).rejects.toThrow(/deadlock/i);
        await expect(outbox.enqueue(message(1), { manager })).rejects.toMatchObject(GONE);
        await expect(outbox.enqueue(message(1), { manager })).rejects.toMatchObject({ code: 'TRANSACTION_REQUIRED' });
      },
    ],
    [
      'of a statement beside it',
      async (manager, statement) => {
        const both = await Promise.allSettled([statement, outbox.enqueue(message(1), { manager })]);
        expect(both).toMatchObject([{ status: 'rejected' }, { status: 'rejected', reason: GONE }]);
      },
    ],
    [
      'of a statement that came between the statements of an array with ids of its own',
      async (manager, statement) => {
        const ids = ['0198a000-0000-7000-8000-000000000001', '0198a000-0000-7000-8000-000000000002'];
        const both = await Promise.allSettled([
          statement,
          outbox.enqueue(
            ids.map((id) => ({ ...message(1), id })),
            { manager },
          ),
        ]);
        expect(both).toMatchObject([{ status: 'rejected' }, { status: 'rejected', reason: GONE }]);
      },
    ],
  ])('A8: nothing is committed by itself after one %s', async (_, then) => {
    await victim(async (manager, statement) => {
      statement.catch(() => undefined);
      await then(manager, statement);
    });
    expect(await db.rows()).toEqual([]);
  });

  it.each([0, 1, 2, 3, 4, 5])(
    'A8: the same where the statement comes behind %s others, whatever of the enqueue is sent by then',
    async (before) => {
      const transaction = deadlock(async (manager, statement) => {
        const branch = async (): Promise<unknown> => {
          for (let n = 0; n < before; n += 1) await manager.query(`select ${n}`);
          return statement();
        };
        const [victim] = await Promise.allSettled([branch(), outbox.enqueue(message(1), { manager })]);
        expect(victim.status).toBe('rejected');
        throw new Error(FAILED);
      });
      await expect(transaction).rejects.toThrow(FAILED);
      expect(await db.rows()).toEqual([]);
    },
  );

  it('A8: the same with a QueryRunner that was there before the outbox', async () => {
    const late = await createEnqueueDatabase(kind);
    const runner = late.dataSource.createQueryRunner();
    try {
      const watching = late.outbox();
      await runner.startTransaction();
      await expect(runner.query('select nonsense')).rejects.toThrow();
      await runner.query('commit'); // as a deadlock would: TypeORM does not hear of it
      await expect(watching.enqueue(message(1), { manager: runner })).rejects.toMatchObject(GONE);
      await runner.rollbackTransaction();
      await runner.startTransaction();
      await watching.enqueue(message(2), { manager: runner });
      await runner.commitTransaction();
      expect(await late.rows()).toHaveLength(1);
    } finally {
      await runner.release();
      await late.drop();
    }
  });

  /** Each of two transactions keeps whatever is new out of the end of the table. */
  const LOCK_END = {
    mariadb: (runner: QueryRunner) => runner.query('select 1 from outbox_ready for update'),
    mysql: (runner: QueryRunner) => runner.query('rollback to savepoint before_it'),
  };

  it('H10: one in which the INSERT of an enqueue is the victim is a TRANSACTION_CONFLICT: run again, nothing is lost', async () => {
    const fresh = await createEnqueueDatabase(kind); // no rows whose purge is due, which would be locked themselves
    const runners = [fresh.dataSource.createQueryRunner(), fresh.dataSource.createQueryRunner()];
    const service = fresh.outbox();
    try {
      for (const runner of runners) {
        await runner.startTransaction('REPEATABLE READ');
        await fresh.addThing(runner);
        await runner.query('savepoint before_it');
        if (kind === 'mysql') await service.enqueue(message(0), { manager: runner });
      }
      for (const runner of runners) await LOCK_END[kind](runner);
      const enqueue = (runner: QueryRunner, n: number) => service.enqueue(message(n), { manager: runner });
      const outcomes = await Promise.allSettled(runners.map(enqueue));
      const [refused] = outcomes.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[];
      expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
      expect(refused?.reason).toMatchObject({ code: 'TRANSACTION_CONFLICT', cause: { errno: 1213 } });
      const victim = outcomes.findIndex(({ status }) => status === 'rejected');
      await expect(enqueue(runners[victim] as QueryRunner, 2)).rejects.toMatchObject(GONE);
      await runners[victim]?.rollbackTransaction();
      await runners[1 - victim]?.commitTransaction();
      expect([(await fresh.rows()).length, await fresh.things()]).toEqual([1, 1]);
      await fresh.dataSource.transaction(async (manager) => {
        await fresh.addThing(manager);
        await service.enqueue(message(victim), { manager });
      });
      expect([(await fresh.rows()).length, await fresh.things()]).toEqual([2, 2]);
    } finally {
      for (const runner of runners) await runner.release();
      await fresh.drop();
    }
  });

  it('A8: what follows in the queue of a transaction whose enqueue was the victim is not committed by itself', async () => {
    const strict = await createEnqueueDatabase(kind, 4, 'strict');
    const [other, runner] = [strict.dataSource.createQueryRunner(), strict.dataSource.createQueryRunner()];
    try {
      const keyed = strict.outbox();
      const enqueue = (manager: QueryRunner, key: string) => keyed.enqueue({ ...message(1), key }, { manager });
      await other.startTransaction();
      for (let n = 0; n < 50; n += 1) await strict.addThing(other);
      await enqueue(other, 'k2');
      await runner.startTransaction();
      await enqueue(runner, 'k1');
      const both = Promise.allSettled([enqueue(runner, 'k2'), enqueue(runner, 'k3')]);
      expect(await waitsForLock(onMariadb(strict), both)).toBe(true);
      await enqueue(other, 'k1');
      expect(await both).toMatchObject([
        { status: 'rejected', reason: { code: 'TRANSACTION_CONFLICT' } },
        { status: 'rejected', reason: GONE },
      ]);
      await runner.rollbackTransaction();
      await other.rollbackTransaction();
      expect(await strict.rows()).toEqual([]);
    } finally {
      await other.release();
      await runner.release();
      await strict.drop();
    }
  });

  it('H15: a subscriber of a statement that enqueues, and is waited for by it, does not wait for itself for ever', async () => {
    let enqueued: Promise<unknown> | undefined;
    const subscriber = {
      afterQuery: (event: { query: string; queryRunner: { manager: EntityManager } }) =>
        event.query.includes('insert into thing')
          ? (enqueued ??= outbox.enqueue(message(1), { manager: event.queryRunner.manager }))
          : undefined,
    };
    db.dataSource.subscribers.push(subscriber as never);
    try {
      await db.dataSource.transaction((manager) => db.addThing(manager));
    } finally {
      db.dataSource.subscribers.pop();
    }
    expect(enqueued).toBeDefined();
    expect([(await db.rows()).length, await db.things()]).toEqual([1, 1]);
  });
});
