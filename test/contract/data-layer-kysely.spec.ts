import { CompiledQuery, Kysely, MysqlDialect, PostgresDialect, type Transaction } from 'kysely';
import { createPool } from 'mysql2';
import { Pool } from 'pg';
import { kyselyLayer } from 'nestjs-outbox/kysely';
import { describeDataLayerContract } from 'nestjs-outbox/testing';
import { dataLayerHarness } from '../support/data-layer.js';
import { describeWith } from '../support/services.js';

interface Rows {
  contract_row: { id: number };
}

async function openPostgres(connectionString: string, max: number) {
  const pool = new Pool({ connectionString, max });
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
  describeDataLayerContract('Kysely on PostgreSQL', dataLayerHarness('postgres', openPostgres, execute));
});
describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayerContract(`Kysely on ${kind}`, dataLayerHarness(kind, openMysql, execute));
  });
});
