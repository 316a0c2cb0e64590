import { createPool, type Pool, type PoolConnection, type RowDataPacket } from 'mysql2/promise';
import { mysql2Layer } from 'nestjs-outbox/mysql2';
import { dataLayerHarness } from '../support/data-layer.js';
import { describeDataLayer } from '../support/data-layer-relay.js';
import { describeWith } from '../support/services.js';

async function open(uri: string, connectionLimit: number) {
  const pool = createPool({ uri, connectionLimit });
  return {
    dataLayer: mysql2Layer(pool),
    outside: pool,
    async transaction<T>(work: (tx: PoolConnection) => Promise<T>): Promise<T> {
      const connection = await pool.getConnection();
      try {
        await connection.beginTransaction();
        const result = await work(connection);
        await connection.commit();
        return result;
      } catch (error) {
        await connection.rollback();
        throw error;
      } finally {
        connection.release();
      }
    },
    insert: (tx: PoolConnection, id: number) => tx.execute('insert into contract_row values (?)', [id]),
    rows: async () =>
      (await pool.query<RowDataPacket[]>('select id from contract_row'))[0].map(({ id }) => id as number),
    close: () => pool.end(),
  };
}

describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayer(
      `mysql2 on ${kind}`,
      dataLayerHarness(kind, open, ({ outside }, sql) => (outside as Pool).query(sql)),
    );
  });
});
