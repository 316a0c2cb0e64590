import { CompiledQuery, Kysely, MysqlDialect, PostgresDialect, type Transaction } from 'kysely';
import { createPool } from 'mysql2';
import { Pool } from 'pg';
import { kyselyLayer } from 'nestjs-outbox/kysely';
import type { OutboxDataLayer } from '../../lib/outbox-data-layer.js';
import type { DataLayer } from '../../lib/transaction/data-layer.js';
import { createTestDatabase } from '../support/databases.js';
import { dataLayerHarness, unshaken } from '../support/data-layer.js';
import { describeDataLayer } from '../support/data-layer-relay.js';
import { describeWith } from '../support/services.js';

interface Rows {
  contract_row: { id: number };
}

async function openPostgres(connectionString: string, max: number) {
  const pool = unshaken(new Pool({ connectionString, max }));
  return opened(new Kysely<Rows>({ dialect: new PostgresDialect({ pool }) }), pool);
}

async function openMysql(uri: string, connectionLimit: number) {
  const pool = createPool({ uri, connectionLimit });
  return opened(new Kysely<Rows>({ dialect: new MysqlDialect({ pool }) }), pool);
}

function opened(db: Kysely<Rows>, pool: object) {
  return {
    dataLayer: kyselyLayer(db, { pool }),
    outside: db,
    transaction: <T>(work: (trx: Transaction<Rows>) => Promise<T>) => db.transaction().execute(work),
    insert: (trx: Transaction<Rows>, id: number) => trx.insertInto('contract_row').values({ id }).execute(),
    rows: async () => (await db.selectFrom('contract_row').select('id').execute()).map(({ id }) => id),
    close: () => db.destroy(),
  };
}

const execute = ({ outside }: { outside: object }, sql: string): Promise<unknown> =>
  (outside as Kysely<Rows>).executeQuery(CompiledQuery.raw(sql));

describeWith('postgres', 'Kysely', () => {
  it('takes what is made of a transaction, and a transaction without a callback, as long as they last', async () => {
    const database = await createTestDatabase('postgres');
    const { outside: db, dataLayer, close } = await openPostgres(database.url, 1);
    const layer = dataLayer as OutboxDataLayer as DataLayer;
    const controlled = await db.startTransaction().execute();
    await layer.require(controlled);
    await controlled.commit().execute();
    const handles = await db.transaction().execute(async (trx) => {
      await layer.require(trx.withSchema('public'));
      return [controlled, trx, trx.withSchema('public'), trx.withoutPlugins()];
    });
    await db.transaction().execute(async () => {
      for (const handle of handles)
        await expect((async () => layer.require(handle))()).rejects.toMatchObject({ code: 'TRANSACTION_REQUIRED' });
    });
    await close();
    await database.drop();
  });

  describeDataLayer('Kysely on PostgreSQL', dataLayerHarness('postgres', openPostgres, execute));
});
describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayer(`Kysely on ${kind}`, dataLayerHarness(kind, openMysql, execute));
  });
});
