// @tier gate
import type { QueryRunner } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { describeWith } from '../../support/services.js';

const ROLLBACK_ONLY = { code: 'ROLLBACK_ONLY' };
const plain = (type: string) => ({ type, payload: 1 });

describeWith('postgres', 'after the commit', () => {
  const db = useEnqueueDatabase('postgres');
  let outbox: OutboxService;
  let nudges = 0;
  let announced: (readonly string[])[] = [];
  let dropped: (readonly string[])[] = [];

  beforeAll(async () => {
    outbox = db.outbox({
      workAppeared: () => void nudges++,
      hooks: { has: () => true, emit: (_, event) => void announced.push((event as { ids: readonly string[] }).ids) },
      onRolledBack: (ids) => void dropped.push(ids),
    });
  });
  beforeEach(async () => {
    [nudges, announced, dropped] = [0, [], []];
  });

  const withRunner = async (work: (runner: QueryRunner) => Promise<void>): Promise<void> => {
    const runner = db.dataSource.createQueryRunner();
    try {
      await work(runner);
    } finally {
      if (runner.isTransactionActive) await runner.rollbackTransaction().catch(() => undefined);
      await runner.release();
    }
  };
  const enqueue = (runner: QueryRunner, type = 'm'): Promise<string> =>
    outbox.enqueue(plain(type), { manager: runner });
  const untouched = (runner: QueryRunner): boolean =>
    ['commitTransaction', 'rollbackTransaction'].every((name) => !Object.hasOwn(runner, name));

  it('the relay is told once per transaction, with all ids, before commitTransaction resolves', async () => {
    await withRunner(async (runner) => {
      await runner.startTransaction();
      const ids = [await enqueue(runner), await enqueue(runner)];
      expect([nudges, untouched(runner)]).toEqual([0, false]);
      await runner.commitTransaction();
      expect([nudges, announced, dropped, untouched(runner)]).toEqual([1, [ids], [], true]);
    });
  });

  it('not after a rollback, and not without messages', async () => {
    await withRunner(async (runner) => {
      await runner.startTransaction();
      const id = await enqueue(runner);
      await runner.rollbackTransaction();
      expect([nudges, announced, dropped, untouched(runner)]).toEqual([0, [], [[id]], true]);
      await runner.startTransaction();
      await runner.commitTransaction();
      expect(nudges).toBe(0);
    });
  });

  it.each([true, false])(
    'not after a COMMIT that is answered with ROLLBACK behind a swallowed failure: awaited: %s',
    async (is) => {
      await withRunner(async (runner) => {
        await runner.startTransaction();
        const id = await enqueue(runner);
        const failing = runner.query('select 1/0').catch((error: Error) => error.message);
        if (is) await failing;
        await expect(runner.commitTransaction()).rejects.toMatchObject(ROLLBACK_ONLY); // TypeORM would take it for one
        expect(await failing).toBe('division by zero');
        expect([await db.types(), nudges, announced, dropped]).toEqual([[], 0, [], [[id]]]);
      });
      await db.dataSource.transaction(async (manager) => {
        await outbox.enqueue(plain('m'), { manager });
        await expect(manager.transaction((inner) => inner.query('select 1/0'))).rejects.toThrow('division by zero');
      });
      expect([await db.types(), nudges]).toEqual([['m'], 1]);
    },
  );

  it('nor where a subscriber swallows it: TypeORM tells of a rollback', async () => {
    const heard: string[] = [];
    db.dataSource.subscribers.push({
      beforeTransactionCommit: (event) => event.queryRunner.query('select 1/0').catch(() => undefined),
      afterTransactionCommit: () => void heard.push('committed'),
      afterTransactionRollback: () => void heard.push('rolled back'),
    });
    const ended = db.dataSource.transaction((manager) => outbox.enqueue(plain('m'), { manager }));
    await expect(ended).rejects.toMatchObject(ROLLBACK_ONLY);
    db.dataSource.subscribers.pop();
    expect([await db.types(), nudges, heard]).toEqual([[], 0, ['rolled back']]);
  });

  it.each([
    ['a statement', 'select 1/0', 'division by zero'],
    ['the release of a savepoint that is not there', 'release savepoint nowhere', 'nowhere'],
    ['the way back to one', 'rollback to savepoint nowhere', 'nowhere'],
  ])('nor when pg’s client learns of the failure later than the application, or never: %s', async (_, sql, words) => {
    await withRunner(async (runner) => {
      await runner.startTransaction();
      const id = await enqueue(runner);
      const client = (runner as unknown as { databaseConnection: { getTransactionStatus?: () => string } })
        .databaseConnection;
      client.getTransactionStatus = () => 'T';
      await expect(runner.query(sql)).rejects.toThrow(words);
      await expect(runner.commitTransaction()).rejects.toMatchObject(ROLLBACK_ONLY);
      delete client.getTransactionStatus;
      expect([await db.types(), nudges, announced, dropped]).toEqual([[], 0, [], [[id]]]);
    });
  });

  it('a COMMIT that fails tells nobody', async () => {
    await db.dataSource.query('create table if not exists parent (id int primary key)');
    await db.dataSource.query(
      'create table if not exists child (id int references parent (id) deferrable initially deferred)',
    );
    const failing = db.dataSource.transaction(async (manager) => {
      await manager.query('insert into child values (1)');
      await outbox.enqueue(plain('m'), { manager });
    });
    await expect(failing).rejects.toThrow(/foreign key/);
    expect([nudges, announced, dropped.length, await db.rows()]).toEqual([0, [], 1, []]);
  });

  it('a runner is used again and again', async () => {
    await withRunner(async (runner) => {
      const queries = new Set<unknown>();
      for (let i = 0; i < 5; i++) {
        await runner.startTransaction();
        await enqueue(runner);
        queries.add(runner.query);
        await (i % 2 === 0 ? runner.commitTransaction() : runner.rollbackTransaction());
        expect(untouched(runner)).toBe(true);
      }
      expect([nudges, dropped.length, queries.size]).toEqual([3, 2, 1]);
    });
  });

  it('others may wrap the same methods, before and after', async () => {
    await withRunner(async (runner) => {
      const calls: string[] = [];
      const before = runner.commitTransaction.bind(runner);
      runner.commitTransaction = () => Promise.resolve(calls.push('before')).then(before);
      await runner.startTransaction();
      await enqueue(runner);
      const ours = runner.commitTransaction.bind(runner);
      runner.commitTransaction = () => Promise.resolve(calls.push('after')).then(ours);
      await runner.commitTransaction();
      for (let i = 0; i < 3; i++) {
        await runner.startTransaction();
        await enqueue(runner);
        await runner.commitTransaction();
      }
      expect(nudges).toBe(4);
      expect(calls).toEqual(Array.from({ length: 4 }, () => ['after', 'before']).flat());
    });
  });

  it('two outboxes on one transaction are both told', async () => {
    let others = 0;
    const second = db.outbox({ workAppeared: () => void others++ });
    await db.dataSource.transaction(async (manager) => {
      await outbox.enqueue(plain('a'), { manager });
      await second.enqueue(plain('b'), { manager });
    });
    expect([nudges, others]).toEqual([1, 1]);
  });

  it('a listener that throws breaks nothing', async () => {
    const workAppeared = () => {
      throw new Error('relay');
    };
    const broken = db.outbox({ workAppeared });
    await db.dataSource.transaction((manager) => broken.enqueue(plain('m'), { manager }));
    expect(await db.types()).toEqual(['m']);
  });

  it('subscribers that throw after the COMMIT do not hide it', async () => {
    const afterTransactionCommit = () => Promise.reject(new Error('foreign subscriber'));
    db.dataSource.subscribers.push({ afterTransactionCommit });
    const ended = db.dataSource.transaction((manager) => outbox.enqueue(plain('m'), { manager }));
    await expect(ended).rejects.toThrow('foreign');
    db.dataSource.subscribers.pop();
    expect([nudges, await db.types()]).toEqual([1, ['m']]);
  });

  it('still works after the DataSource was closed and opened again', async () => {
    await db.dataSource.destroy();
    await db.dataSource.initialize();
    await db.dataSource.transaction((manager) => outbox.enqueue(plain('m'), { manager }));
    expect([nudges, await db.types()]).toEqual([1, ['m']]);
  });
});
