import { knex, type Knex } from 'knex';
import { knexLayer } from 'nestjs-outbox/knex';
import { describeDataLayerContract } from 'nestjs-outbox/testing';
import { dataLayerHarness } from '../support/data-layer.js';
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

describeWith('postgres', 'Knex', () => {
  describeDataLayerContract('Knex on PostgreSQL', dataLayerHarness('postgres', openWith('pg'), execute));
});
describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayerContract(`Knex on ${kind}`, dataLayerHarness(kind, openWith('mysql2'), execute));
  });
});
