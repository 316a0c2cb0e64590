import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { MysqlStore } from '../../../lib/store/mysql/store.js';
import { statement } from '../../../lib/store/sql.js';
import { MysqlConnection } from '../../../lib/data-layers/drivers/mysql-connection.js';
import { OwnedTransport, settled, StoreRun } from '../../../lib/testing/store-contract/harness.js';
import { series } from '../../support/databases.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { waitsForLock } from '../../support/open-transactions.js';
import { describeOnMysqlFamily } from '../../support/services.js';

/** What is peculiar to InnoDB; the rest of the store's behaviour is in the contract. */
describeOnMysqlFamily('the store', (kind) => {
  const stores = new MariaDbStores(kind);
  const run = new StoreRun(stores, globalThis as never);
  beforeAll(() => run.start());
  afterAll(() => run.stop());
  afterEach(() => jest.restoreAllMocks());

  const probe = (owned: OwnedTransport, bucket: number, after: string, upTo: string) =>
    run.store.ready.probe?.(owned.transport, [{ bucket, after, upTo }]).then(({ clean }) => clean[0]);

  describe('probe', () => {
    it('sees an open insert in the middle and at the end of a range, and none behind it or in a neighbour', async () => {
      const owned = await run.owned();
      await owned.insert({}, {});
      const [, before] = (await owned.ready()).map(({ seq }) => seq) as [string, string];
      const open = await stores.begin();
      await run.store.writer.insert(open.tx, [owned.message()]); // bucket 1, right behind `before`
      const neighbour = await stores.begin();
      await run.store.writer.insert(neighbour.tx, [owned.message({ bucket: 2 })]);
      await owned.insert({});
      const after = (await owned.ready()).at(-1)?.seq as string;
      const late = String(BigInt(before) + 1n);
      expect(await probe(owned, 1, '0', before)).toBe(true); // the open row is the next one
      expect(await probe(owned, 1, '0', late)).toBe(false); // at the end
      expect(await probe(owned, 1, '0', after)).toBe(false); // in the middle
      expect(await probe(owned, 1, before, late)).toBe(false); // alone
      expect(await probe(owned, 1, late, after)).toBe(true); // before the range
      expect(await probe(owned, 0, '0', after)).toBe(true);
      await open.rollback();
      expect(await probe(owned, 1, '0', after)).toBe(true); // another bucket's open row is no obstacle
      await neighbour.rollback();
    });
  });

  it('knows what it cancelled beside 5,000 other transports that might still have the message', async () => {
    const owned = await run.owned();
    const [id] = (await owned.insert({ delay: 60_000 })) as [string];
    await stores.application.query(
      `insert into outbox_transports (id, name) select 10000 + seq, concat('other ', seq) from ${series(kind, 5_000)}`,
    );
    const cancel = (): Promise<unknown> => run.operator.cancel({ ids: [id] });
    try {
      await expect(cancel()).resolves.toEqual({ done: 1, changed: [id], tooLate: [], notFound: [] });
    } finally {
      await stores.application.query('delete from outbox_transports where id > 10000');
    }
  });

  it('survives deadlocks with an application that locks the same rows the other way round', async () => {
    const owned = await run.owned();
    await owned.insert({}, {});
    const messages = await owned.ready();
    const runner = stores.application.createQueryRunner();
    await runner.startTransaction();
    await runner.query(`select * from outbox_ready where seq = ${messages[1]?.seq} for update`);
    // The heavier transaction survives: the settle is the victim.
    await run.store.writer.insert(
      transactionExecutor(runner),
      Array.from({ length: 50 }, () => owned.message()),
    );
    // For as long as it takes to see that it waits.
    const patience = (seconds: number): Promise<unknown> =>
      (run.store as MysqlStore).database
        .connection('settle')
        .run(statement(undefined, `set session innodb_lock_wait_timeout = ${seconds}`).bind());
    await patience(120);
    const settling = run.store.ready.settle(owned.transport, messages.map(settled), 'archive');
    expect(await waitsForLock({ dataSource: stores.application, database: stores.database }, settling)).toBe(true);
    await runner.query(`select * from outbox_ready where seq = ${messages[0]?.seq} for update`);
    await runner.rollbackTransaction();
    await runner.release();
    expect((await settling).affected).toBe(2);
    await patience(2);
  });

  it('waits once for a row that somebody else holds, says so, and lets the next statement in', async () => {
    const owned = await run.owned();
    await owned.insert({}, {});
    const [held, free] = (await owned.ready()).map(settled);
    const holder = stores.application.createQueryRunner();
    await holder.startTransaction();
    await holder.query(`select * from outbox_ready where seq = ${held?.seq} for update`);
    const settle = (message: typeof held) => run.store.ready.settle(owned.transport, [message as never], 'delete');
    const sent = jest.spyOn(MysqlConnection.prototype, 'execute');
    const [first, second] = await Promise.allSettled([settle(held), settle(free)]);
    expect(first).toMatchObject({ status: 'rejected', reason: { errno: 1205 } });
    expect(second).toMatchObject({ status: 'fulfilled', value: { affected: 1 } });
    const texts = sent.mock.calls.map(([, { statement: asked }]) => asked.questionMarks);
    expect(texts.filter((text) => text.includes('outbox_ready'))).toHaveLength(2); // the first one is not sent again
    await holder.rollbackTransaction();
    await holder.release();
    expect((await settle(held)).affected).toBe(1);
  });

  describe('insert', () => {
    it('does not swallow what does not fit, and the transaction stays usable', async () => {
      const owned = await run.owned();
      const open = await stores.begin();
      await expect(run.store.writer.insert(open.tx, [owned.message({ dedupKey: 'x'.repeat(256) })])).rejects.toThrow(
        /too long/i,
      );
      await expect(run.store.writer.insert(open.tx, [owned.message({ topic: 'x'.repeat(256) })])).rejects.toThrow(
        /too long/i,
      );
      await run.store.writer.insert(open.tx, [owned.message()]);
      await open.commit();
      expect(await owned.readyIds()).toHaveLength(1);
    });

    it('splits by bytes, and refuses what the server would not take before it breaks the connection', async () => {
      const owned = await run.owned();
      const open = await stores.begin();
      const half = Buffer.alloc(512 * 1024, 1);
      await run.store.writer.insert(
        open.tx,
        Array.from({ length: 40 }, () => owned.message({ payload: half })),
      );
      await expect(
        run.store.writer.insert(open.tx, [owned.message({ payload: Buffer.alloc(600 * 1024 * 1024) })]),
      ).rejects.toMatchObject({
        code: 'PAYLOAD_TOO_LARGE',
        message: expect.stringContaining('max_allowed_packet'),
      });
      await open.commit();
      expect((await owned.ready()).every(({ size }) => size === half.length)).toBe(true);
      expect(await owned.readyIds()).toHaveLength(40);
    });
  });

  it('F3: a payload at the limit of max_allowed_packet is stored and read, one byte more is refused before the insert', async () => {
    const owned = await run.owned();
    const [row] = (await stores.application.query('select @@session.max_allowed_packet as n')) as { n: string }[];
    const { topic, type, contentType, key } = owned.message();
    const texts = topic.length + type.length + contentType.length + (key?.length ?? 0);
    // Its hexadecimal digits, and what the estimate adds.
    const limit = Math.floor((Math.min(Number(row?.n), 2 ** 27) - 200 - 6 * texts) / 2);
    const fits = [limit - 1, limit].map((size) => owned.message({ payload: Buffer.alloc(size, 255) }));
    for (const message of fits) await run.committed((tx) => run.store.writer.insert(tx, [message]));
    const over = owned.message({ payload: Buffer.alloc(limit + 1, 255) });
    await expect(run.committed((tx) => run.store.writer.insert(tx, [over]))).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
    });
    const found = await owned.ready();
    expect(found.map(({ id, size }) => [id, size])).toEqual(fits.map(({ id, payload }) => [id, payload?.length]));
  });
});
