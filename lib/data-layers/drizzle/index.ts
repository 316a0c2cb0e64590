/** `nestjs-outbox/drizzle`: the data layer of an application that uses Drizzle over a pool of pg or mysql2. */
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { dataLayerOf } from '../library/layer.js';
import { poolDriver } from '../library/library.js';

/** What we use of a database of `drizzle-orm/node-postgres` or `drizzle-orm/mysql2`. */
interface DrizzleDatabase {
  readonly $client: object;
  // Of the least that each of both can be assigned to.
  transaction: (work: (tx: any, config?: any) => Promise<any>, config?: any) => Promise<any>; // eslint-disable-line typescript/no-explicit-any
}
type TransactionOf<Db extends DrizzleDatabase> = Parameters<Parameters<Db['transaction']>[0]>[0] & object;
/** One for each transaction, which those nested in it share. */
interface DrizzleSession {
  readonly client: object;
}
type Transaction = (work: (tx: object) => Promise<unknown>, config?: object) => Promise<unknown>;

const HOW_TO =
  'Pass { tx } from db.transaction((tx) => …) of the db that drizzleLayer was given, or call it inside outbox.transaction(…).';

/**
 * A transaction is what `db.transaction` hands to its callback: `outbox.enqueue(event, { tx })`.
 * @param db made by `drizzle(pool)`; the relay's own connections have the options of the pool
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: it has another client than a pool of pg or mysql2
 */
export function drizzleLayer<Db extends DrizzleDatabase>(db: Db): OutboxDataLayer<TransactionOf<Db>> {
  watchSessions(db as never);
  const driver = poolDriver(db.$client);
  if (driver === undefined) throw refusal();
  return dataLayerOf<TransactionOf<Db>>({
    source: db,
    driver,
    howTo: HOW_TO,
    isHandle: (handle) => 'session' in handle,
    isDatabase: (handle) => (handle as Partial<DrizzleDatabase>).$client !== undefined,
    connectionOf(handle) {
      const { session } = handle as { session: DrizzleSession };
      return open.has(session) ? driver.connectionOf(session.client) : undefined;
    },
    transaction(work, isolation) {
      const config = isolation === undefined ? undefined : { isolationLevel: isolation.toLowerCase() };
      return db.transaction(work as never, config as never) as Promise<never>;
    },
    nested: (tx, work) => (tx as DrizzleDatabase).transaction(work as never) as Promise<never>,
  });
}

/** Sessions of transactions that have not ended. */
const open = new WeakSet<object>();

/** A transaction of Drizzle does not tell that it has ended, and its connection may be in another one by then. */
function watchSessions(db: { transaction: Transaction }): void {
  const original = db.transaction;
  db.transaction = (work, ...config) => {
    const watched = async (tx: object): Promise<unknown> => {
      const { session } = tx as { session: DrizzleSession };
      open.add(session);
      try {
        return await work(tx);
      } finally {
        open.delete(session);
      }
    };
    return original.call(db, watched, ...config);
  };
}

const refusal = (): OutboxConfigurationError =>
  new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'drizzleLayer: the database is over no pool of pg or mysql2.', {
    hint: 'Make it with drizzle(new Pool({ … })) of drizzle-orm/node-postgres, or drizzle(createPool({ … })) of drizzle-orm/mysql2.',
  });
