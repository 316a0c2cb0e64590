import { EntitySchema } from '@mikro-orm/core';
import { MikroORM as MysqlOrm } from '@mikro-orm/mysql';
import { MikroORM as PostgresOrm, type EntityManager } from '@mikro-orm/postgresql';
import { mikroOrmLayer } from 'nestjs-outbox/mikro-orm';
import { describeDataLayerContract } from 'nestjs-outbox/testing';
import { dataLayerHarness } from '../support/data-layer.js';
import { describeWith } from '../support/services.js';

const ContractRow = new EntitySchema<{ id: number }>({
  name: 'ContractRow',
  tableName: 'contract_row',
  properties: { id: { type: 'number', primary: true } },
});

const openWith = (MikroORM: typeof PostgresOrm | typeof MysqlOrm) => async (clientUrl: string, max: number) => {
  const orm = (await MikroORM.init({
    clientUrl,
    entities: [ContractRow],
    pool: { min: 0, max },
  } as never)) as unknown as PostgresOrm;
  return {
    dataLayer: mikroOrmLayer(orm),
    outside: orm.em,
    transaction: <T>(work: (em: EntityManager) => Promise<T>) => orm.em.transactional(work),
    insert: (em: EntityManager, id: number) => em.insert('ContractRow', { id }),
    rows: async () => (await orm.em.fork().find<{ id: number }>('ContractRow', {})).map(({ id }) => id),
    close: () => orm.close(),
  };
};

const execute = async ({ outside }: { outside: object }, sql: string): Promise<unknown> =>
  (outside as EntityManager).getConnection().execute(sql);

describeWith('postgres', 'MikroORM', () => {
  describeDataLayerContract('MikroORM on PostgreSQL', dataLayerHarness('postgres', openWith(PostgresOrm), execute));
});
describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayerContract(`MikroORM on ${kind}`, dataLayerHarness(kind, openWith(MysqlOrm), execute));
  });
});
