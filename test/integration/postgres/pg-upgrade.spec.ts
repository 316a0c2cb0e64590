import { DataSource } from 'typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService } from '../../../lib/index.js';
import { Applications, build, CollectingTransport, OrderPlaced, quiet, typeOrm } from '../../nest/support/app.js';
import type { TestDatabase } from '../../support/databases.js';
import { canStart, startOwnPostgres } from '../../support/own-database.js';
import { describeUnlessMissing } from '../../support/services.js';
import { until } from '../../support/until.js';

/** Between two servers of one version: `pg_upgrade` does the same with what it finds. */
describeUnlessMissing(canStart.postgres ? [] : ['postgres'], 'an outbox that pg_upgrade moved', () => {
  const applications = new Applications();
  const closing: (() => void)[] = [];
  afterEach(async () => {
    await applications.close();
    for (const close of closing.splice(0).reverse()) close();
  });
  const databaseAt = (url: string): TestDatabase => ({
    kind: 'postgres',
    url,
    options: { type: 'postgres', url },
    drop: async () => {},
  });
  const start = (url: string, prefix: string, transport: CollectingTransport, relay: boolean | 'manual' = true) =>
    applications.start(
      build([
        typeOrm(databaseAt(url)),
        OutboxModule.forRoot(quiet({ relay, transports: { default: transport }, database: { prefix } })),
      ]),
    );
  const origin = `select value from drained_meta where name = 'database'`;
  async function query(url: string, sql: string): Promise<unknown[]> {
    const dataSource = await new DataSource({ type: 'postgres', url }).initialize();
    const rows = await dataSource.query<unknown[]>(sql);
    await dataSource.destroy();
    return rows;
  }

  /** Published one, so that the tables are this database's, and `left` of one key after it. */
  async function before(url: string, prefix: string, left: number): Promise<string[]> {
    const app = await start(url, prefix, new CollectingTransport(), 'manual');
    const outbox = app.get(OutboxService);
    await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    await app.get(OutboxDispatcher).runOnce();
    const ids: string[] = [];
    for (let n = 0; n < left; n += 1) ids.push(await outbox.enqueueOutsideTransaction(new OrderPlaced('1')));
    await applications.close();
    return ids;
  }

  it('A13: with messages it publishes nothing until somebody says so, then all in order; one that is empty at the first start is not asked', async () => {
    const old = await startOwnPostgres();
    closing.push(() => old.stop());
    const left = await before(old.url, 'outbox_', 20);
    await before(old.url, 'drained_', 0);
    const [known] = await query(old.url, origin);
    const { url, stop } = await old.upgraded();
    closing.push(stop);

    const drained = new CollectingTransport();
    const other = await start(url, 'drained_', drained);
    await until(async () => JSON.stringify(await query(url, origin)) !== JSON.stringify([known]));
    const next = await other.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(() => drained.ids.includes(next));

    const transport = new CollectingTransport();
    const app = await start(url, 'outbox_', transport);
    const outbox = app.get(OutboxService);
    await until(async () => (await outbox.health()).status === 'down');
    const fresh = await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    await expect(app.get(OutboxDispatcher).runOnce()).rejects.toMatchObject({ code: 'DATABASE_COPIED' });
    expect(transport.ids).toEqual([]);
    await query(url, `delete from outbox_meta where name = 'database'`);
    await until(() => transport.ids.length > left.length);
    expect(transport.ids).toEqual([...left, fresh]);
  });
});
