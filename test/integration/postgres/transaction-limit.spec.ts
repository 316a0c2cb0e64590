import { DataSource } from 'typeorm';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../../sample/01-quick-start/src/embedded-postgres.js';
import { statement } from '../../../lib/store/sql.js';
import { openStore } from '../../support/open-store.js';
import { PgBouncer } from '../../support/pgbouncer.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeUnlessMissing } from '../../support/services.js';

interface Opened {
  readonly database: {
    connection(role: 'settle'): {
      transaction<T>(work: (tx: { run(sql: unknown): Promise<T> }) => Promise<T>): Promise<T>;
    };
  };
}

/** From PostgreSQL 17 on. Longer than the limit that the database has below. */
const WORK = `select pg_sleep(6)`;

describeUnlessMissing(PgBouncer.isInstalled ? [] : ['pgbouncer'], 'a database that limits its transactions', () => {
  let server: EmbeddedPostgres;
  let pooler: PgBouncer;
  let harness: Harness;

  beforeAll(async () => {
    server = await startEmbeddedPostgres();
    harness = await createHarness('postgres', {}, server.url);
    const [{ name }] = (await harness.dataSource.query('select current_database() as name')) as [{ name: string }];
    await harness.dataSource.query(`alter database ${name} set transaction_timeout = '5s'`);
    pooler = await PgBouncer.start(server.url, 'transaction');
  });
  afterAll(async () => {
    await harness?.close();
    pooler?.stop();
    await server?.stop();
  });

  const opened = async (port?: number): Promise<DataSource> => {
    const options = harness.database.options as { url?: string };
    const url = new URL(options.url as string);
    if (port !== undefined) url.port = String(port);
    return new DataSource({ ...harness.database.options, url: url.href } as never).initialize();
  };

  it.each(['directly', 'behind a pooler'])('Q3: ends none of a relay, %s', async (way) => {
    const application = await opened(way === 'directly' ? undefined : pooler.port);
    try {
      const inTransaction = application.transaction((manager) => manager.query(WORK));
      const { database, ordering, coordination, onPublished, buckets } = harness.options;
      const store = openStore(application, { options: database, ordering, coordination, onPublished, buckets });
      const work = (store as unknown as Opened).database.connection('settle').transaction(async (tx) => {
        await tx.run(statement(undefined, WORK).bind());
        return tx.run(statement(undefined, 'select 7').bind());
      });
      await Promise.all([
        expect(inTransaction).rejects.toThrow(/transaction timeout|terminated/),
        expect(work).resolves.toBeDefined(),
      ]);
      await store.close();
    } finally {
      await application.destroy();
    }
  });
});
