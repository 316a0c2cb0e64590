import { EntitySchema } from '@mikro-orm/core';
import { MikroORM as MysqlOrm } from '@mikro-orm/mysql';
import { MikroORM as PostgresOrm, type EntityManager } from '@mikro-orm/postgresql';
import { mikroOrmLayer } from 'nestjs-outbox/mikro-orm';
import { createTestDatabase } from '../support/databases.js';
import { dataLayerHarness } from '../support/data-layer.js';
import { describeDataLayer } from '../support/data-layer-relay.js';
import { describeWith } from '../support/services.js';

const ContractRow = new EntitySchema<{ id: number }>({
  name: 'ContractRow',
  tableName: 'contract_row',
  properties: { id: { type: 'number', primary: true } },
});

/** What a nested `outbox.transaction` calls. */
interface Layer {
  require(em: EntityManager): Promise<{ nested(work: (em: EntityManager) => Promise<unknown>): Promise<unknown> }>;
}

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

describe('mikroOrmLayer', () => {
  it('throws UNSUPPORTED_DATABASE: MikroORM 7 without its pool', () => {
    const em = { getConnection: () => ({}) } as unknown as EntityManager;
    expect(() => mikroOrmLayer({ em })).toThrow(expect.objectContaining({ code: 'UNSUPPORTED_DATABASE' }));
  });
  it('throws INVALID_OPTIONS: the password is a function', async () => {
    const options = { dbName: 'none', entities: [ContractRow], connect: false, password: () => 'secret' };
    const orm = await PostgresOrm.init(options);
    expect(() => mikroOrmLayer(orm)).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS' }));
  });
});

describeWith('postgres', 'MikroORM', () => {
  it('keeps what was persisted before a nested transaction that is rolled back', async () => {
    const database = await createTestDatabase('postgres');
    const { dataLayer, outside: em, rows, close } = await openWith(PostgresOrm)(database.url, 2);
    const layer = dataLayer as unknown as Layer;
    await em.getConnection().execute('create table contract_row (id int primary key)');
    await em.transactional(async (outer) => {
      outer.persist(outer.create('ContractRow', { id: 1 }));
      const session = await layer.require(outer);
      const failed = session.nested(async (inner) => {
        await inner.flush();
        throw new Error('rolled back');
      });
      await expect(failed).rejects.toThrow('rolled back');
    });
    expect(await rows()).toEqual([1]);
    await close();
    await database.drop();
  });

  describeDataLayer('MikroORM on PostgreSQL', dataLayerHarness('postgres', openWith(PostgresOrm), execute));
});
describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayer(`MikroORM on ${kind}`, dataLayerHarness(kind, openWith(MysqlOrm), execute));
  });
});
