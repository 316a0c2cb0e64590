// @tier gate
import type { EntityManager } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { describeOnEach } from '../../support/services.js';

const message = (n: number) => ({ type: 'm', payload: n });
const FAILED = 'business';

/** Parallel work goes on while the transaction that it belongs to is rolled back, or is gone. */
describeOnEach([], 'the end of a transaction, and what is enqueued meanwhile', (kind) => {
  const db = useEnqueueDatabase(kind);
  let outbox: OutboxService;
  let answers: Promise<unknown>[] = [];
  beforeAll(() => void (outbox = db.outbox()));
  beforeEach(async () => {
    answers = [];
  });

  /** One of three fails at once; the others save, and enqueue when that is answered. */
  const parallel = (manager: EntityManager, explicit = true): Promise<unknown> =>
    Promise.all(
      [1, 2, 3].map(async (n) => {
        if (n === 2) throw new Error(FAILED);
        const answer = db
          .addThing(manager)
          .then(() => outbox.enqueue(message(n), explicit ? { manager } : undefined))
          .catch((error: { code?: string }) => error.code);
        answers.push(answer);
        await answer;
      }),
    );
  const left = async () => ({ messages: (await db.rows()).length, things: await db.things() });

  it.each<[string, () => Promise<unknown>]>([
    ['of a transaction in which nothing was enqueued before', () => db.dataSource.transaction((m) => parallel(m))],
    [
      'of one in which something was',
      () =>
        db.dataSource.transaction(async (manager) => {
          await outbox.enqueue(message(0), { manager });
          await parallel(manager);
        }),
    ],
    [
      'of an ambient one that inner calls join',
      () =>
        outbox.transaction((outer) =>
          Promise.all(
            [1, 2, 3].map((n) =>
              outbox.transaction(async () => {
                if (n === 2) throw new Error(FAILED);
                await db.addThing(outer);
                const answer = outbox.enqueue(message(n)).catch((error: { code?: string }) => error.code);
                answers.push(answer);
                await answer;
              }),
            ),
          ),
        ),
    ],
    ['of an ambient one', () => outbox.transaction((manager) => parallel(manager, false))],
    [
      'of a QueryRunner that has had a transaction before',
      async () => {
        const runner = db.dataSource.createQueryRunner();
        try {
          await runner.startTransaction();
          await outbox.enqueue(message(0), { manager: runner });
          await runner.rollbackTransaction();
          await runner.startTransaction();
          await parallel(runner.manager).catch(() => undefined);
          await runner.rollbackTransaction();
        } finally {
          await runner.release();
        }
        throw new Error(FAILED);
      },
    ],
  ])('A8: nothing is committed by itself: %s', async (_, transaction) => {
    await expect(transaction()).rejects.toThrow(FAILED);
    await Promise.all(answers);
    expect(await left()).toEqual({ messages: 0, things: 0 });
  });

  it('A8: nor into the transaction around a savepoint, while that is rolled back', async () => {
    await db.dataSource.transaction(async (outer) => {
      await outer.transaction((inner) => parallel(inner)).catch(() => undefined);
      expect(await Promise.all(answers)).toEqual(['TRANSACTION_REQUIRED', 'TRANSACTION_REQUIRED']);
      await outbox.enqueue(message(9), { manager: outer });
    });
    expect(await left()).toEqual({ messages: 1, things: 0 });
  });

  it('A8: what is called behind a ROLLBACK TO that waits for a write is not taken back by it', async () => {
    await db.dataSource.transaction(async (manager) => {
      await manager.query('savepoint a');
      const enqueue = (n: number) => outbox.enqueue(message(n), { manager });
      const called = [enqueue(1), manager.query('rollback to savepoint a'), enqueue(2)];
      const [, , last] = await Promise.allSettled(called);
      expect(last).toMatchObject({ reason: { code: 'TRANSACTION_REQUIRED' } });
    });
    expect(await left()).toEqual({ messages: 0, things: 0 });
  });

  it('A8: a commit that fails ends the transaction, too', async () => {
    const runner = db.dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await db.addThing(runner);
      const { query } = runner;
      runner.query = (async (sql: string, ...rest: never[]) => {
        const answer = await query.call(runner, sql, ...rest);
        if (sql === 'COMMIT') throw new Error('the answer was lost');
        return answer as unknown;
      }) as typeof runner.query;
      await expect(runner.commitTransaction()).rejects.toThrow('lost');
      await expect(outbox.enqueue(message(1), { manager: runner })).rejects.toMatchObject({
        code: 'TRANSACTION_REQUIRED',
      });
      runner.query = query;
      await runner.rollbackTransaction();
      // Of another runner: TypeORM 0.3.20 has lost count of this one's transactions.
      await db.dataSource.transaction((manager) => outbox.enqueue(message(2), { manager }));
    } finally {
      await runner.release();
    }
    expect(await left()).toEqual({ messages: 1, things: 1 });
  });

  it('what a subscriber enqueues before the commit, and parallel work that waits, is committed', async () => {
    await db.dataSource.transaction(async (manager) => {
      await Promise.all([
        outbox.enqueue(message(1), { manager }),
        manager.transaction((inner) => outbox.enqueue(message(2), { manager: inner })),
        db.addThing(manager).then(() => outbox.enqueue(message(3), { manager })),
      ]);
    });
    const subscriber = {
      beforeTransactionCommit: (event: { manager: EntityManager }) =>
        outbox.enqueue(message(4), { manager: event.manager }).then(() => undefined),
    };
    db.dataSource.subscribers.push(subscriber as never);
    try {
      await db.dataSource.transaction((manager) => db.addThing(manager));
    } finally {
      db.dataSource.subscribers.pop();
    }
    expect(await left()).toEqual({ messages: 4, things: 2 });
  });
});
