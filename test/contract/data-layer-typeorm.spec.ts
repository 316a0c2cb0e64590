import { DataSource, type EntityManager } from 'typeorm';
import { typeOrmLayer } from 'nestjs-outbox/typeorm';
import { dataLayerHarness } from '../support/data-layer.js';
import { describeDataLayer } from '../support/data-layer-relay.js';
import { DATABASES, describeWith, type DatabaseKind } from '../support/services.js';

const openOn = (kind: DatabaseKind) => async (url: string, poolSize: number) => {
  const dataSource = await new DataSource({ type: kind, url, poolSize }).initialize();
  return {
    dataLayer: typeOrmLayer(dataSource),
    outside: dataSource.manager,
    transaction: <T>(work: (tx: EntityManager) => Promise<T>) => dataSource.transaction(work),
    insert: (tx: EntityManager, id: number) => tx.query(`insert into contract_row values (${id})`),
    rows: async () => (await dataSource.query('select id from contract_row')).map(({ id }: { id: number }) => id),
    close: () => dataSource.destroy(),
  };
};

describe.each(DATABASES)('%s', (kind) => {
  describeWith(kind, kind, () => {
    const create = ({ outside }: { outside: object }, sql: string) => (outside as EntityManager).query(sql);
    describeDataLayer(`TypeORM on ${kind}`, dataLayerHarness(kind, openOn(kind), create));
  });
});
