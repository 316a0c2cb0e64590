import type { EntityManager } from 'typeorm';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { describeOnEach } from '../../support/services.js';

const message = { type: 'm', payload: 1 };
/** Microtasks between the end of the work and the enqueue beside it, on either side. */
const OFFSETS = Array.from({ length: 120 }, (_, n) => ({ before: (n % 10) * 2, enqueue: Math.floor(n / 10) * 2 }));

/** So many turns of the microtask queue. */
async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await undefined;
}

describeOnEach([], 'an application whose query runners are Proxies (retries, tenants, traces)', (kind) => {
  describe('and an enqueue beside the end of its transaction', () => {
    const db = useEnqueueDatabase(kind);
    beforeAll(async () => {
      const { dataSource } = db;
      const create = dataSource.createQueryRunner.bind(dataSource);
      dataSource.createQueryRunner = (mode) => new Proxy(create(mode), {});
    });

    it.each(['rolls back', 'commits'])('H11: that %s: a call that was refused wrote nothing', async (end) => {
      const outbox = db.outbox();
      const calls = { written: 0, refused: 0 };
      for (const { before, enqueue } of OFFSETS) {
        let call: Promise<unknown> | undefined;
        const work = async (manager: EntityManager): Promise<void> => {
          await manager.query('insert into thing (id) values (1)');
          const late = turns(enqueue).then(() => outbox.enqueue(message, { manager }));
          call = late.then(
            () => (calls.written += 1),
            () => (calls.refused += 1),
          );
          await turns(before);
          if (end === 'rolls back') throw new Error('no');
        };
        await db.dataSource.transaction(work).catch(() => undefined);
        await call;
      }
      expect(await db.rows()).toHaveLength(end === 'commits' ? calls.written : 0);
      expect(calls.written).toBeGreaterThan(0);
    });

    it('H11: what is committed is told, so that the relay wakes', async () => {
      const told: string[] = [];
      const outbox = db.outbox({
        hooks: {
          has: (name) => name === 'enqueued',
          emit: (_, event) => void told.push(...(event as unknown as { ids: string[] }).ids),
        },
      });
      const id = await db.dataSource.transaction((manager) => outbox.enqueue(message, { manager }));
      const runner = db.dataSource.createQueryRunner();
      await runner.startTransaction();
      const second = await outbox.enqueue(message, { manager: runner.manager });
      await runner.commitTransaction();
      await runner.startTransaction();
      const third = await outbox.enqueue(message, { manager: runner });
      await runner.commitTransaction();
      await runner.release();
      expect(told).toEqual([id, second, third]);
    });
  });
});
