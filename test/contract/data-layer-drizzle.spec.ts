import { sql } from 'drizzle-orm';
import { drizzle as onMysql } from 'drizzle-orm/mysql2';
import { int, mysqlTable } from 'drizzle-orm/mysql-core';
import { drizzle as onPostgres } from 'drizzle-orm/node-postgres';
import { integer, pgTable } from 'drizzle-orm/pg-core';
import { createPool } from 'mysql2/promise';
import { Pool } from 'pg';
import { drizzleLayer } from 'nestjs-outbox/drizzle';
import { dataLayerHarness, unshaken } from '../support/data-layer.js';
import { describeDataLayer } from '../support/data-layer-relay.js';
import { describeWith } from '../support/services.js';

const ofPostgres = pgTable('contract_row', { id: integer().primaryKey() });
const ofMysql = mysqlTable('contract_row', { id: int().primaryKey() });

async function openPostgres(connectionString: string, max: number) {
  const db = onPostgres(unshaken(new Pool({ connectionString, max })));
  const dataLayer = drizzleLayer(db);
  type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0];
  return {
    dataLayer,
    outside: db,
    transaction: <T>(work: (tx: Tx) => Promise<T>) => db.transaction(work),
    insert: (tx: Tx, id: number) => tx.insert(ofPostgres).values({ id }),
    rows: async () => (await db.select().from(ofPostgres)).map(({ id }) => id),
    close: () => db.$client.end(),
  };
}

async function openMysql(uri: string, connectionLimit: number) {
  const db = onMysql(createPool({ uri, connectionLimit }));
  const dataLayer = drizzleLayer(db);
  type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0];
  return {
    dataLayer,
    outside: db,
    transaction: <T>(work: (tx: Tx) => Promise<T>) => db.transaction(work),
    insert: (tx: Tx, id: number) => tx.insert(ofMysql).values({ id }),
    rows: async () => (await db.select().from(ofMysql)).map(({ id }) => id),
    close: () => db.$client.end(),
  };
}

const execute = ({ outside }: { outside: object }, text: string): Promise<unknown> =>
  (outside as { execute(query: object): Promise<unknown> }).execute(sql.raw(text));

describeWith('postgres', 'Drizzle', () => {
  describeDataLayer('Drizzle on PostgreSQL', dataLayerHarness('postgres', openPostgres, execute));
});
describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayer(`Drizzle on ${kind}`, dataLayerHarness(kind, openMysql, execute));
  });
});
