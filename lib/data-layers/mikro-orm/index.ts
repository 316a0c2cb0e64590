/** `nestjs-outbox/mikro-orm`: the data layer of an application that uses MikroORM over pg or mysql2. */
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { knexDriver, type KnexClient } from '../knex/driver.js';
import { dataLayerOf } from '../library/layer.js';
import { poolDriver, type Driver } from '../library/library.js';

/** What we use of an entity manager. */
interface MikroOrmManager {
  // eslint-disable-next-line typescript/no-explicit-any -- of the least that each driver's one can be assigned to
  transactional(work: (em: any) => Promise<any>, options?: any): Promise<any>;
  getTransactionContext(): unknown;
  getConnection(type?: 'write'): object;
}
/** MikroORM 6 runs over Knex, and 7 over Kysely. */
interface Connection {
  getKnex?(): { readonly client: KnexClient };
  execute(statement: string, parameters: readonly [], method: 'all', transaction: unknown): Promise<unknown>;
}
/** Of Knex, or of Kysely. */
type Transaction =
  | { isCompleted(): boolean }
  | { readonly isCompleted?: never; readonly isCommitted: boolean; readonly isRolledBack: boolean };

const HOW_TO = 'Pass { tx: em } from em.transactional(async (em) => …), or call it inside outbox.transaction(…).';

/**
 * A transaction is an entity manager that is in one: what `em.transactional` hands to its callback, or one after `em.begin()`:
 * `outbox.enqueue(event, { tx: em })`. The first enqueue in it asks which connection it has, by one statement.
 * @param orm connected; the relay's own connections have the options of its primary
 * @param options.pool with MikroORM 7: `await orm.em.getConnection().getNativeClient()`
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: it has no pool of pg or mysql2. `INVALID_OPTIONS`: its password is a function
 */
export function mikroOrmLayer<Em extends MikroOrmManager>(
  orm: { readonly em: Em },
  { pool }: { readonly pool?: object } = {},
): OutboxDataLayer<Em> {
  return dataLayerOf<Em>({
    source: orm,
    driver: driverOf(orm.em, pool),
    howTo: HOW_TO,
    isHandle: (handle) => 'getTransactionContext' in handle,
    hasEnded: (em) => hasEnded(transactionOf(em)),
    identityOf: transactionOf,
    // Each em of `transactional` has its own transaction for good; others know none, or the one that they are in now.
    ask: (em, statement) => (em.getConnection('write') as Connection).execute(statement, [], 'all', transactionOf(em)),
    // Not in the one around it, as everywhere in an outbox.
    transaction: (work, isolation) =>
      orm.em.transactional(work, { propagation: 'requires_new', isolationLevel: isolation?.toLowerCase() }) as never,
    nested: (em, work) => em.transactional(work, { propagation: 'nested' }) as never,
  });
}

const transactionOf = (em: object): Transaction | undefined =>
  (em as MikroOrmManager).getTransactionContext() as Transaction | undefined;

function hasEnded(trx: Transaction | undefined): boolean {
  if (trx === undefined) return true;
  return trx.isCompleted === undefined ? trx.isCommitted || trx.isRolledBack : trx.isCompleted();
}

function driverOf(em: MikroOrmManager, pool: object | undefined): Driver {
  const { getKnex } = em.getConnection('write') as Connection;
  if (getKnex !== undefined)
    return knexDriver(getKnex.call(em.getConnection('write')).client, 'mikroOrmLayer', MADE_WITH);
  const driver = poolDriver(pool);
  if (driver !== undefined) return driver;
  throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'mikroOrmLayer: there is no pool of pg or mysql2.', {
    hint: `${MADE_WITH} With MikroORM 7 give its pool: { pool: await orm.em.getConnection().getNativeClient() }.`,
  });
}
const MADE_WITH = 'Make it with MikroORM of @mikro-orm/postgresql or @mikro-orm/mysql; the latter is for MariaDB, too.';
