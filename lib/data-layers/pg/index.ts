/** `nestjs-outbox/pg`: the data layer of an application that uses pg itself. */
import type { Pool, PoolClient } from 'pg';
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { between, ofTransaction } from '../library/between.js';
import { dataLayerOf } from '../library/layer.js';
import { pgDriver } from '../library/library.js';

/**
 * A transaction is a client of this pool, between BEGIN and COMMIT: `outbox.enqueue(event, { tx: client })`.
 * @param pool of pg; the relay's own connections have its options
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: it is no pool
 */
export function pgLayer(pool: Pool): OutboxDataLayer<PoolClient> {
  return dataLayerOf<PoolClient>({
    source: pool,
    driver: pgDriver(pool),
    howTo:
      'Pass { tx: client }, a client of the pool on which BEGIN was awaited, or call it inside outbox.transaction(…).',
    isHandle: (handle) => 'query' in handle,
    isDatabase: (handle) => (handle as Partial<Pool>).totalCount !== undefined,
    connectionOf: (handle) => ((handle as Partial<PoolClient>).release === undefined ? undefined : handle),
    async transaction(work, isolation) {
      const client = await pool.connect();
      let broken: unknown;
      const statements = ofTransaction('postgres', isolation);
      try {
        return await between(
          (text) => client.query(text),
          statements,
          () => work(client),
          (error) => (broken = error),
        );
      } finally {
        client.release(broken !== undefined);
      }
    },
  });
}
