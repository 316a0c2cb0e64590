import { knex, type Knex } from 'knex';
import { knexLayer } from 'nestjs-outbox/knex';
import type { OutboxDataLayer } from '../../lib/outbox-data-layer.js';
import type { DataLayer } from '../../lib/transaction/data-layer.js';
import { createTestDatabase } from '../support/databases.js';
import { dataLayerHarness } from '../support/data-layer.js';
import { describeDataLayer } from '../support/data-layer-relay.js';
import { describeWith } from '../support/services.js';

const openWith = (client: string) => async (connection: string, max: number) => {
  const db = knex({ client, connection, pool: { min: 0, max } });
  return {
    dataLayer: knexLayer(db),
    outside: db,
    transaction: <T>(work: (trx: Knex.Transaction) => Promise<T>) => db.transaction(work),
    insert: async (trx: Knex.Transaction, id: number) => trx('contract_row').insert({ id }),
    rows: async () => db('contract_row').pluck<number[]>('id'),
    close: () => db.destroy(),
  };
};

const execute = async ({ outside }: { outside: object }, sql: string): Promise<unknown> => (outside as Knex).raw(sql);

describe('knexLayer', () => {
  it.each([
    ['UNSUPPORTED_DATABASE', { client: 'better-sqlite3' }],
    ['UNSUPPORTED_DATABASE', { client: 'mysql' }],
    ['UNSUPPORTED_DATABASE', { client: 'pg' }],
    ['INVALID_OPTIONS', { client: 'pg', connection: () => ({}) }],
  ])('throws %s: %o', (code, config) => {
    expect(() => knexLayer(knex(config))).toThrow(expect.objectContaining({ code }));
  });
});

describeWith('postgres', 'Knex', () => {
  it('refuses a nested transaction that has ended in one that has not', async () => {
    const database = await createTestDatabase('postgres');
    const db = knex({ client: 'pg', connection: database.url });
    const layer = knexLayer(db) as OutboxDataLayer as DataLayer;
    await db.transaction(async (trx) => {
      const inner = await trx.transaction();
      await layer.require(inner);
      await inner.rollback();
      expect(() => layer.require(inner)).toThrow(expect.objectContaining({ code: 'TRANSACTION_REQUIRED' }));
      await layer.require(trx);
    });
    await db.destroy();
    await database.drop();
  });

  describeDataLayer('Knex on PostgreSQL', dataLayerHarness('postgres', openWith('pg'), execute));
});
describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayer(`Knex on ${kind}`, dataLayerHarness(kind, openWith('mysql2'), execute));
  });
});
