/** `nestjs-outbox/mysql2`: the data layer of an application that uses mysql2 itself. */
import type { Pool as CorePool } from 'mysql2';
import type { Pool, PoolConnection } from 'mysql2/promise';
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { between, ofTransaction } from '../library/between.js';
import { dataLayerOf } from '../library/layer.js';
import { mysql2Driver, type Mysql2Pool } from '../library/library.js';

/**
 * A transaction is a connection of this pool, between BEGIN and COMMIT: `outbox.enqueue(event, { tx: connection })`.
 * @param given the pool; the relay's own connections have its options
 */
export function mysql2Layer(given: Pool | CorePool): OutboxDataLayer<PoolConnection> {
  const pool = 'promise' in given ? given.promise() : given;
  const driver = mysql2Driver(pool as unknown as Mysql2Pool);
  const isCurrent = watchedHandles(pool);
  return dataLayerOf<PoolConnection>({
    source: pool.pool,
    driver,
    howTo:
      'Pass { tx: connection }, a connection of the pool on which beginTransaction() was awaited, or call it inside outbox.transaction(…).',
    connectionOf: (handle) => (isCurrent(handle) ? driver.connectionOf(handle) : undefined),
    async transaction(work, isolation) {
      const connection = await pool.getConnection();
      let isBroken = false;
      const statements = ofTransaction('mysql', isolation);
      try {
        return await between(
          (text) => connection.query(text),
          statements,
          () => work(connection),
          () => (isBroken = true),
        );
      } finally {
        if (isBroken) connection.destroy();
        else connection.release();
      }
    },
  });
}

/** Each time that a connection is handed out it has another object with promises: those from before lead into somebody else's transaction. */
function watchedHandles(pool: Pool): (handle: object) => boolean {
  const current = new WeakMap<object, object>();
  const original = pool.getConnection;
  pool.getConnection = async () => {
    const handle = await original.call(pool);
    current.set(handle.connection, handle);
    return handle;
  };
  return (handle) => {
    const { connection } = handle as { connection?: object };
    return connection === undefined ? 'threadId' in handle : current.get(connection) === handle;
  };
}
