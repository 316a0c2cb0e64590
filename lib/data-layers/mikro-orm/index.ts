/** `nestjs-outbox/mikro-orm`: the data layer of an application that uses MikroORM 6 or 7 over pg or mysql2. */
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { knexDriver, type KnexClient } from '../knex/driver.js';
import { dataLayerOf } from '../library/layer.js';
import { poolDriver, type Driver } from '../library/library.js';

/** What we use of an entity manager: of the least that each driver's one can be assigned to. */
interface MikroOrmManager {
  transactional(work: (em: any) => Promise<any>, options?: any): Promise<any>; // eslint-disable-line typescript/no-explicit-any
  fork(): any; // eslint-disable-line typescript/no-explicit-any
  flush(): Promise<void>;
  isInTransaction(): boolean;
  getTransactionContext(): unknown;
  getConnection(type?: 'write'): object;
}
interface Connection {
  /** Of 6, which runs over Knex; 7 runs over Kysely. */
  getKnex?(): { readonly client: KnexClient };
  execute(statement: string, parameters: readonly [], method: 'all', transaction: unknown): Promise<unknown>;
}
/** Of Knex, or of Kysely. */
type Transaction =
  | { isCompleted(): boolean }
  | { readonly isCompleted?: never; readonly isCommitted: boolean; readonly isRolledBack: boolean };

const HOW_TO = 'Pass { tx: em } from em.transactional(async (em) => …), or call it inside outbox.transaction(…).';
const MADE_WITH = 'Make it with MikroORM of @mikro-orm/postgresql or @mikro-orm/mysql; the latter is for MariaDB, too.';

/**
 * A transaction is an entity manager that is in one: what `em.transactional` hands to its callback, or one after `em.begin()`:
 * `outbox.enqueue(event, { tx: em })`. The first enqueue in it asks which connection it has, by one statement.
 * @param orm connected; the relay's own connections have the options of its primary
 * @param options.pool with MikroORM 7: `await orm.em.getConnection().getNativeClient()`
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: it has no pool of pg or mysql2. `INVALID_OPTIONS`: its password is a function
 */
export function mikroOrmLayer<Em extends MikroOrmManager>(
  orm: { readonly em: Em },
  options: { readonly pool?: object } = {},
): OutboxDataLayer<Em> {
  return dataLayerOf<Em>({
    source: orm,
    driver: driverOf(orm.em.getConnection('write') as Connection, options.pool),
    howTo: HOW_TO,
    isHandle: (handle) => 'getTransactionContext' in handle,
    isDatabase: (em) => transactionOf(em) === undefined,
    hasEnded: (em) => hasEnded(transactionOf(em) as Transaction),
    identityOf: transactionOf,
    ask: (em, statement) => (em.getConnection('write') as Connection).execute(statement, [], 'all', transactionOf(em)),
    // Never within one of the application's own, which it would join as a savepoint.
    transaction: (work, isolation) =>
      (orm.em.isInTransaction() ? (orm.em.fork() as Em) : orm.em).transactional(work, {
        isolationLevel: isolation?.toLowerCase(),
      }) as never,
    async nested(em, work) {
      await em.flush(); // else a savepoint would take along what was persisted before it, and lose it
      return em.transactional(work) as Promise<never>;
    },
  });
}

const transactionOf = (em: object): Transaction | undefined =>
  (em as MikroOrmManager).getTransactionContext() as Transaction | undefined;

function hasEnded(trx: Transaction): boolean {
  return trx.isCompleted === undefined ? trx.isCommitted || trx.isRolledBack : trx.isCompleted();
}

function driverOf(connection: Connection, pool: object | undefined): Driver {
  if ('getKnex' in connection) return knexDriver(connection.getKnex?.().client, 'mikroOrmLayer', MADE_WITH);
  const driver = poolDriver(pool);
  if (driver !== undefined) return driver;
  throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'mikroOrmLayer: there is no pool of pg or mysql2.', {
    hint: `${MADE_WITH} With MikroORM 7 give its pool: { pool: await orm.em.getConnection().getNativeClient() }.`,
  });
}
