import type { QueryRunner } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { describeWith, DATABASES } from '../../support/services.js';

const message = { type: 'm', key: 'k', payload: 1 };
const EACH = DATABASES.flatMap((kind) => (['key', 'strict'] as const).map((ordering) => ({ kind, ordering })));
const OVER = { code: 'TRANSACTION_REQUIRED' };
type Raw = { query(sql: string, done: (error: Error | null) => void): unknown };

/** As pg-copy-streams, `LOAD DATA` and query builders on the driver's connection send them: past `queryRunner.query`. */
function onClient(client: Raw, sql: string): Promise<void> {
  return new Promise((resolve, reject) => {
    client.query(sql, (error) => (error === null || error === undefined ? resolve() : reject(error)));
  });
}
/** `qb.stream()` of TypeORM. */
async function streamed(runner: QueryRunner, sql: string): Promise<void> {
  const stream = await runner.stream(sql);
  await new Promise<void>((resolve, reject) => {
    stream.on('data', () => undefined);
    stream.on('end', resolve);
    stream.on('error', reject);
  });
}

describe.each(EACH)(
  'a statement past runner.query that ends it, on $kind, ordering $ordering',
  ({ kind, ordering }) => {
    describeWith(kind, 'and what is enqueued behind it', () => {
      const db = useEnqueueDatabase(kind, 4, ordering);
      let outbox: OutboxService;
      let runner: QueryRunner;
      let client: Raw;
      beforeAll(async () => {
        outbox = db.outbox();
        await db.dataSource.query('create table scratch (id int)');
      });
      beforeEach(async () => {
        runner = db.dataSource.createQueryRunner();
        client = (await runner.connect()) as Raw;
      });
      afterEach(async () => {
        if (runner.isTransactionActive) await runner.rollbackTransaction();
        if (kind !== 'postgres') await runner.query('set autocommit = 1');
        await runner.release();
        expect(await db.staged()).toBe(0);
      });

      const enqueue = (): Promise<string> => outbox.enqueue(message, { manager: runner });
      async function begin(): Promise<void> {
        await runner.startTransaction();
        await db.addThing(runner);
      }

      it.each(['commit', 'rollback'])('H5: %s on the connection of connect(): is refused', async (sql) => {
        await begin();
        await enqueue();
        await onClient(client, sql);
        await expect(enqueue()).rejects.toMatchObject(OVER);
        await expect(enqueue()).rejects.toMatchObject(OVER);
        expect(await db.rows()).toHaveLength(sql === 'commit' ? 1 : 0);
        await runner.commitTransaction().catch(() => undefined);
        await begin();
        await enqueue();
        await runner.commitTransaction();
        expect(await db.rows()).toHaveLength(sql === 'commit' ? 2 : 1);
      });

      it('H5: while it is on its way: is refused', async () => {
        await begin();
        const ended = onClient(client, 'rollback');
        await expect(enqueue()).rejects.toMatchObject(OVER);
        await ended;
        await runner.commitTransaction().catch(() => undefined);
        expect([await db.rows(), await db.things()]).toEqual([[], 0]);
      });

      it('H14: between the look at the transaction and the INSERT: the call fails, and what it wrote is there by itself', async () => {
        await begin();
        const { query } = client;
        client.query = function (this: Raw, asked: unknown, ...rest: unknown[]) {
          const { text, sql } = asked as { text?: string; sql?: string };
          if (/^insert into .*outbox_/.test(text ?? sql ?? '')) {
            client.query = query;
            void onClient(client, 'commit');
          }
          return query.apply(this, [asked, ...rest] as never);
        } as Raw['query'];
        await expect(enqueue()).rejects.toMatchObject({
          ...OVER,
          cause: expect.objectContaining({ message: expect.stringContaining('committed by itself') }),
        });
        client.query = query;
        await expect(enqueue()).rejects.toMatchObject(OVER);
        expect([await db.rows(), await db.things()]).toMatchObject([[{ type: 'm' }], 1]);
        await runner.rollbackTransaction().catch(() => undefined);
      });

      it('H5: behind a statement that ends nothing: is written', async () => {
        await begin();
        await onClient(client, 'select 1');
        await enqueue();
        const both = onClient(client, 'select 2');
        await enqueue();
        await both;
        await runner.commitTransaction();
        expect([await db.rows(), await db.things()]).toMatchObject([Array(2).fill({ type: 'm' }), 1]);
      });

      if (kind === 'postgres') return;

      it.each([0, 1])('H5: a stream that fails and ends it, with autocommit = %s: is refused', async (autocommit) => {
        await runner.query(`set autocommit = ${autocommit}`);
        await begin();
        await streamed(runner, 'rollback');
        await expect(enqueue()).rejects.toMatchObject(OVER);
        await runner.commitTransaction();
        expect([await db.rows(), await db.things()]).toEqual([[], 0]);
      });

      it('H5: CREATE, with autocommit = 0: is refused, as a statement of the next transaction', async () => {
        await runner.query('set autocommit = 0');
        await begin();
        await runner.query('create table if not exists scratch (id int)');
        await expect(enqueue()).rejects.toMatchObject(OVER);
        await runner.rollbackTransaction();
        expect([await db.rows(), await db.things()]).toEqual([[], 1]);
      });

      it('with autocommit = 0 a transaction is one, and costs no question', async () => {
        await runner.query('set autocommit = 0');
        await begin();
        await enqueue();
        await runner.commitTransaction();
        expect([(await db.rows()).length, await db.things()]).toEqual([1, 1]);
      });
    });
  },
);
