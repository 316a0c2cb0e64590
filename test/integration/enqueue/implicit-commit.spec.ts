import type { QueryRunner } from 'typeorm';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { describeOnEach, dialectOf } from '../../support/services.js';

describeOnEach([], 'H13: a commit that no COMMIT tells of', (kind) => {
  const db = useEnqueueDatabase(kind);
  let nudges = 0;
  const announced: unknown[] = [];

  const nudgesOf = async (
    work: (runner: QueryRunner, enqueue: () => Promise<unknown>) => Promise<unknown>,
  ): Promise<number> => {
    const outbox = db.outbox({
      workAppeared: () => void nudges++,
      hooks: { has: () => true, emit: (_, event) => void announced.push(event) },
    });
    await db.clear();
    nudges = announced.length = 0;
    const runner = db.dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await work(runner, () => outbox.enqueue({ type: 'm', payload: 1 }, { manager: runner }));
      expect(await db.types()).toEqual(['m']); // committed, as another connection sees it
      return nudges;
    } finally {
      await runner.rollbackTransaction().catch(() => undefined);
      await runner.release();
    }
  };

  const texts = {
    postgres: ['select 1; commit', 'commit; select 1'],
    mysql: ['create table if not exists ours (a int)', 'start transaction', 'begin', 'analyze table ours'],
  };
  it.each(texts[dialectOf(kind)])('wakes the relay: %s', async (text) => {
    const woken = await nudgesOf(async (runner, enqueue) => {
      await enqueue();
      expect(nudges).toBe(0);
      await runner.query(text);
    });
    expect(woken).toBe(1);
  });

  it('does not so without a message', async () => {
    const woken = await nudgesOf(async (runner, enqueue) => {
      await runner.query(texts[dialectOf(kind)][0] as string);
      await runner.rollbackTransaction().catch(() => undefined);
      await runner.startTransaction();
      expect(nudges).toBe(0);
      await enqueue();
      await runner.commitTransaction();
    });
    expect([woken, announced.length]).toEqual([1, 1]);
  });
});
