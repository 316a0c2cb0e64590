// @tier fast
import type { EntityManager } from 'typeorm';
import { type OutboxService, OutboxEvent } from '../../../lib/index.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { refusal } from '../../support/enqueue.js';
import { describeOnEach } from '../../support/services.js';

@OutboxEvent({ type: 'event', key: (e) => e.id })
class Event {
  constructor(readonly id: string) {}
}
const plain = (type: string) => ({ type, payload: { a: 1 } });
const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7/;

describeOnEach([], 'enqueue, in the caller’s transaction', (kind) => {
  const db = useEnqueueDatabase(kind);
  let outbox: OutboxService;
  beforeAll(() => void (outbox = db.outbox()));

  it('is visible after the commit, never before, and returns the stored ids', async () => {
    let before: unknown;
    const ids = await db.dataSource.transaction(async (manager) => {
      const written = await outbox.enqueue([new Event('1'), plain('p')], { manager });
      before = await db.rows();
      return written;
    });
    expect(before).toEqual([]);
    expect(await db.rows()).toEqual([
      { id: ids[0], type: 'event', key: '1' },
      { id: ids[1], type: 'p', key: null },
    ]);
    expect(ids[0]).toMatch(V7);
  });

  it('takes an EntityManager, a QueryRunner, its manager and a repository’s manager', async () => {
    const runner = db.dataSource.createQueryRunner();
    await runner.startTransaction();
    await outbox.enqueue(plain('runner'), { manager: runner });
    await outbox.with(runner.manager).enqueue(plain('manager'));
    await outbox.with(runner).enqueue([plain('with-1'), plain('with-2')]);
    await runner.commitTransaction();
    await runner.release();
    expect(await db.types()).toEqual(['manager', 'runner', 'with-1', 'with-2']);
  });

  it('writes one row per transport, one insert for an array, and nothing for an empty one', async () => {
    await db.dataSource.transaction(async (manager) => {
      const id = await outbox.enqueue(plain('both'), { manager, transport: ['default', 'other'] });
      await outbox.enqueue(
        Array.from({ length: 500 }, (_, i) => plain(`m${i}`)),
        { manager },
      );
      expect(await outbox.enqueue([], { manager })).toEqual([]);
      expect(id).toMatch(V7);
    });
    const rows = await db.rows();
    expect(rows).toHaveLength(502);
    expect(rows.filter(({ type }) => type === 'both').map(({ id }) => id)).toEqual([rows[0]?.id, rows[0]?.id]);
  });

  it('is due when its Date said so at the call, whatever becomes of the Date', async () => {
    const deliverAt = new Date(Date.now() + 3_600_000);
    await db.dataSource.transaction(async (manager) => {
      const late = (type: string): Promise<string> => {
        deliverAt.setTime(deliverAt.getTime() + 60_000);
        return outbox.enqueue(plain(type), { manager, deliverAt });
      };
      await Promise.all(['1', '2', '3'].map(late));
    });
    expect(await db.dataSource.query('select distinct due_at from outbox_parked')).toHaveLength(3);
  });

  it('enqueueOutsideTransaction commits by itself, whatever is around it', async () => {
    await outbox
      .transaction(async () => {
        await outbox.enqueueOutsideTransaction(plain('outside'));
        await outbox.enqueueOutsideTransaction([plain('o1'), plain('o2')]);
        await outbox.enqueue(plain('inside'));
        throw new Error('x');
      })
      .catch(() => undefined);
    expect(await db.types()).toEqual(['o1', 'o2', 'outside']);
    const manager = db.dataSource.manager;
    expect((await refusal(() => outbox.enqueueOutsideTransaction(plain('x'), { manager } as never))).code).toBe(
      'INVALID_MESSAGE',
    );
  });

  describe('fails closed', () => {
    const refused = async (work: () => unknown, expected: RegExp, code = 'TRANSACTION_REQUIRED'): Promise<void> => {
      const { code: actual, message } = await refusal(work);
      expect(actual).toBe(code);
      expect(message).toMatch(expected);
      expect(await db.rows()).toEqual([]);
    };

    it('without any transaction', async () => {
      await refused(() => outbox.enqueue(plain('x')), /There is no active transaction\. Pass \{ manager \}/);
      await expect(
        db.dataSource.transaction((manager) => outbox.enqueue(plain('x'), manager as object)),
      ).rejects.toMatchObject({
        code: 'INVALID_MESSAGE',
        message: expect.stringMatching(
          /^The options of enqueue are an? EntityManager\. .*enqueue\(message, \{ tx \}\)/,
        ),
      });
    });
    it('with the manager of the DataSource', async () => {
      await refused(() => outbox.enqueue(plain('x'), { manager: db.dataSource.manager }), /belongs to no transaction/);
    });
    it('with something else', async () => {
      await refused(
        () => outbox.enqueue(plain('x'), { manager: db.dataSource as never }),
        /a DataSource is no EntityManager/,
      );
      await refused(() => outbox.enqueue(plain('x'), { manager: null as never }), /null is no EntityManager/);
      await refused(() => outbox.with(undefined as never).enqueue(plain('x')), /null is no EntityManager/);
    });
    it('with a runner before, after and without a transaction, and a released one', async () => {
      const runner = db.dataSource.createQueryRunner();
      const enqueue = (): Promise<string> => outbox.enqueue(plain('x'), { manager: runner });
      await refused(enqueue, /has no active transaction/);
      const starting = runner.startTransaction();
      await refused(enqueue, /has no active transaction/); // the flag is up, START TRANSACTION is not through
      await starting;
      await runner.rollbackTransaction();
      await refused(enqueue, /has no active transaction/);
      await runner.startTransaction();
      await runner.commitTransaction();
      await refused(enqueue, /has no active transaction/);
      await runner.release();
      await refused(enqueue, /is released/);
    });
    it('with a kept manager, after its transaction', async () => {
      let kept: EntityManager | undefined;
      await db.dataSource.transaction(async (manager) => void (kept = manager));
      await refused(() => outbox.enqueue(plain('x'), { manager: kept as EntityManager }), /is released/);
    });
    it('with a runner for a replica', async () => {
      const runner = db.dataSource.createQueryRunner('slave');
      await runner.startTransaction();
      await refused(() => outbox.enqueue(plain('x'), { manager: runner }), /reading from a replica/);
      await runner.rollbackTransaction();
      await runner.release();
    });
    it('before the start', async () => {
      const early = db.outbox({ transportIds: new Map() });
      await db.dataSource.transaction((manager) =>
        refused(() => early.enqueue(plain('x'), { manager }), /has not started yet/, 'NOT_STARTED'),
      );
    });
  });

  describe('ids and dedup keys', () => {
    const id = '01931d2f-0a5b-7c3d-8e4f-0123456789ab';
    const write = (options: object, message: any = plain('m')) =>
      db.dataSource.transaction((manager) => outbox.enqueue(message, { ...options, manager }));

    it('F8: an id is taken once: the second is refused, its whole array with it, and the transaction goes on', async () => {
      expect(await write({ id: id.toUpperCase(), transport: ['default', 'other'] })).toBe(id);
      expect((await refusal(() => write({ id }))).code).toBe('DUPLICATE_MESSAGE');
      await db.dataSource.transaction(async (manager) => {
        await db.addThing(manager);
        const array = [plain('a'), { ...plain('b'), id }, plain('c')];
        const { code, message } = await refusal(() => outbox.enqueue(array, { manager }));
        expect([code, message]).toEqual(['DUPLICATE_MESSAGE', expect.stringContaining(id)]);
        await outbox.enqueue(plain('after'), { manager });
      });
      expect([await db.types(), await db.things()]).toEqual([['after', 'm', 'm'], 1]);
    });

    it('F8: an id twice in one array is refused before any SQL', async () => {
      const twice = { ...plain('m'), id };
      expect((await refusal(() => write({}, [twice, twice]))).code).toBe('DUPLICATE_MESSAGE');
      expect(await db.rows()).toEqual([]);
    });

    it('F8: a generator that repeats itself is refused before any SQL', async () => {
      const stuck = db.outbox({ options: { idGenerator: () => id } });
      const refused = await refusal(() =>
        db.dataSource.transaction((manager) => stuck.enqueue([plain('a'), plain('b')], { manager })),
      );
      expect(refused).toMatchObject({ code: 'INVALID_MESSAGE', message: expect.stringContaining('same id twice') });
      expect(await db.rows()).toEqual([]);
    });

    it('a dedup key that looks like an id does not stand in the way of that id', async () => {
      await write({ dedupKey: id });
      expect(await write({ id })).toBe(id);
    });
  });
});
