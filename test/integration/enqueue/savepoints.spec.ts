// @tier fast
import type { EntityManager } from 'typeorm';
import type { PayloadEncryption, OutboxService } from '../../../lib/index.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { describeOnEach } from '../../support/services.js';

const FAILED = new Error('business');
const failing = async (manager: EntityManager): Promise<void> => {
  await manager.query('select 1');
  throw FAILED;
};
/** Turns of the microtask queue between the begin of the inner transaction and the enqueue beside it. */
const TURNS = Array.from({ length: 12 }, (_, n) => n);
const slowly: PayloadEncryption = {
  encrypt: async (payload) => {
    await new Promise((resolve) => setImmediate(resolve));
    return { keyId: '1', ciphertext: payload };
  },
  decrypt: ({ ciphertext }) => ciphertext,
};

describeOnEach([], 'savepoints', (kind) => {
  const db = useEnqueueDatabase(kind);
  let outbox: OutboxService;
  let encrypting: OutboxService;
  let told: { committed: string[]; rolledBack: string[] };
  beforeAll(async () => {
    const parts = {
      hooks: {
        has: () => true,
        emit: (_: string, event: unknown) => void told.committed.push(...(event as { ids: string[] }).ids),
      },
      onRolledBack: (ids: readonly string[]) => void told.rolledBack.push(...ids),
    };
    outbox = db.outbox(parts);
    encrypting = db.outbox({ ...parts, options: { encryption: slowly } });
  });
  beforeEach(async () => {
    told = { committed: [], rolledBack: [] };
  });

  const ids = async () => (await db.rows()).map(({ id }) => id).sort();
  const dedupKeys = async () => Number((await db.dataSource.query('select count(*) as n from outbox_dedup'))[0].n);
  /** What is told is what there is. */
  const expectTruth = async (): Promise<void> => expect([...told.committed].sort()).toEqual(await ids());

  it.each<[string, (manager: EntityManager) => Promise<unknown>]>([
    ['with a dedup key', (manager) => outbox.enqueue({ type: 'm', payload: 1, dedupKey: 'k' }, { manager })],
    ['that is encrypted', (manager) => encrypting.enqueue({ type: 'm', payload: 1 }, { manager })],
    [
      'of an array with ids',
      (manager) =>
        outbox.enqueue(
          [1, 2].map((n) => ({ type: 'm', payload: n, id: uuid(n) })),
          { manager },
        ),
    ],
  ])(
    'a message %s, enqueued beside an inner transaction that rolls back, is not half inside it',
    async (_, enqueue) => {
      for (const turns of TURNS) {
        for (const before of [0, 1]) {
          await db.clear();
          told = { committed: [], rolledBack: [] };
          let outcome: unknown;
          await db.dataSource.transaction(async (manager) => {
            if (before > 0) await outbox.enqueue({ type: 'before', payload: 0 }, { manager });
            const inner = manager.transaction(failing).catch(() => undefined);
            for (let turn = 0; turn < turns; turn += 1) await undefined;
            outcome = await enqueue(manager).then(
              () => 'written',
              (error: { code: string }) => error.code,
            );
            await inner;
          });
          await expectTruth();
          const rows = (await ids()).length - before;
          const where = { turns, before, outcome };
          // All of it or nothing of it; inside of the inner transaction it goes back with that, as everybody knows.
          expect({ ...where, rows: rows > 0 }).toEqual({
            ...where,
            rows: told.rolledBack.length === 0 && outcome === 'written',
          });
          if (rows === 0) expect({ ...where, keys: await dedupKeys() }).toEqual({ ...where, keys: 0 });
        }
      }
    },
  );

  it.each<[string, (manager: EntityManager, enqueue: (type: string) => Promise<unknown>) => Promise<unknown>]>([
    [
      'ROLLBACK TO SAVEPOINT',
      async (manager, enqueue) => {
        await enqueue('kept');
        await manager.query('savepoint a');
        await enqueue('lost');
        await manager.query('SAVEPOINT b');
        await enqueue('lost');
        await manager.query('rollback to savepoint A');
        await enqueue('kept');
      },
    ],
    [
      'RELEASE, which has them go with the one around',
      async (manager, enqueue) => {
        await manager.query('savepoint a');
        await manager.query('savepoint b');
        await enqueue('lost');
        await manager.query('release savepoint b');
        await manager.query('rollback to a');
        await manager.query('savepoint b');
        await enqueue('kept');
        await manager.query('release savepoint b');
      },
    ],
    [
      'ROLLBACK',
      async (manager, enqueue) => {
        await enqueue('lost');
        await manager.query('/* no */ ROLLBACK');
      },
    ],
  ])('what a statement of the application takes back is not told as committed: %s', async (_, work) => {
    await db.dataSource.transaction((manager) =>
      work(manager, (type) => outbox.enqueue({ type, payload: 1 }, { manager })),
    );
    expect((await db.types()).filter((type) => type !== 'kept')).toEqual([]);
    await expectTruth();
  });

  it('what a COMMIT of the application kept is told as committed, whatever it throws behind it', async () => {
    const failed = db.dataSource.transaction(async (manager) => {
      await outbox.enqueue({ type: 'kept', payload: 1 }, { manager });
      await manager.query('COMMIT');
      throw FAILED;
    });
    await expect(failed).rejects.toThrow();
    expect(await db.types()).toEqual(['kept']);
    await expectTruth();
    expect(told.rolledBack).toEqual([]);
  });
});

const uuid = (n: number): string => `00000000-0000-7000-8000-00000000000${n}`;
