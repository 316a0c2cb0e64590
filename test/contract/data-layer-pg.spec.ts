import { Pool, type PoolClient } from 'pg';
import { pgLayer } from 'nestjs-outbox/pg';
import { dataLayerHarness, unshaken } from '../support/data-layer.js';
import { describeDataLayer } from '../support/data-layer-relay.js';
import { describeWith } from '../support/services.js';

async function open(connectionString: string, max: number) {
  const pool = unshaken(new Pool({ connectionString, max }));
  return {
    dataLayer: pgLayer(pool),
    outside: pool,
    async transaction<T>(work: (tx: PoolClient) => Promise<T>): Promise<T> {
      const client = await pool.connect();
      try {
        await client.query('begin');
        const result = await work(client);
        await client.query('commit');
        return result;
      } catch (error) {
        await client.query('rollback');
        throw error;
      } finally {
        client.release();
      }
    },
    insert: (client: PoolClient, id: number) => client.query('insert into contract_row values ($1)', [id]),
    rows: async () => (await pool.query<{ id: number }>('select id from contract_row')).rows.map(({ id }) => id),
    close: () => pool.end(),
  };
}

describeWith('postgres', 'pg', () => {
  describeDataLayer(
    'pg on PostgreSQL',
    dataLayerHarness('postgres', open, ({ outside }, sql) => (outside as Pool).query(sql)),
  );
});
