/** `nestjs-outbox/mysql2`: the data layer of an application that uses mysql2 itself. */
import type { Pool as CorePool, PoolConnection as CoreConnection } from 'mysql2';
import type { Pool, PoolConnection } from 'mysql2/promise';
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { between, ofTransaction } from '../library/between.js';
import { dataLayerOf } from '../library/layer.js';
import { mysql2Driver, type Mysql2Pool } from '../library/library.js';

/**
 * A transaction is a connection of this pool, between BEGIN and COMMIT: `outbox.enqueue(event, { tx: connection })`.
 * @param given the pool; the relay's own connections have its options
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: it is no pool, or has a `queryFormat`
 */
export function mysql2Layer(given: Pool | CorePool): OutboxDataLayer<PoolConnection> {
  const core = 'promise' in given ? given : (given.pool as unknown as CorePool);
  const driver = mysql2Driver((core ?? given) as unknown as Mysql2Pool);
  const isHandedOut = watchedHandles(core, given);
  const pool = 'promise' in given ? given.promise() : given;
  return dataLayerOf<PoolConnection>({
    source: core,
    driver,
    howTo:
      'Pass { tx: connection }, a connection of the pool on which beginTransaction() was awaited, or call it inside outbox.transaction(…).',
    isHandle: (handle) => 'query' in handle,
    isDatabase: (handle) => (handle as Partial<Pool>).getConnection !== undefined,
    connectionOf: (handle) =>
      'threadId' in driver.connectionOf(handle) && isHandedOut(handle) ? driver.connectionOf(handle) : undefined,
    async transaction(work, isolation) {
      const connection = await pool.getConnection();
      let isBroken = false;
      try {
        return await between(
          (text) => connection.query(text),
          ofTransaction('mysql', isolation),
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

/** An object with promises, as of which time its connection was handed out: a proxy of it says the same. */
const TURN = Symbol('turn');
const turns = new WeakMap<object, number>();

/** Each time that a connection is handed out it has other objects with promises: those from before lead into somebody else's transaction. */
function watchedHandles(core: CorePool, given: Pool | CorePool): (handle: object) => boolean {
  const add = <T extends { readonly connection: object }>(handle: T): T =>
    Object.defineProperty(handle, TURN, { value: turns.get(handle.connection) });
  core.on('acquire', (connection: CoreConnection) => {
    const turn = turns.get(connection);
    turns.set(connection, (turn ?? 0) + 1);
    if (turn !== undefined) return;
    const { promise } = connection;
    connection.promise = (...args) => add(promise.apply(connection, args) as never);
  });
  const watch = (pool: Pool): Pool => {
    const { getConnection } = pool;
    pool.getConnection = async () => add((await getConnection.call(pool)) as never);
    return pool;
  };
  const { promise } = core;
  core.promise = (...args) => watch(promise.apply(core, args));
  if (!('promise' in given)) watch(given);
  return (handle) => {
    const { connection, [TURN]: turn } = handle as { connection?: object; [TURN]?: number };
    return connection === undefined || (turn !== undefined && turn === turns.get(connection));
  };
}
