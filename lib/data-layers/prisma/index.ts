/** `nestjs-outbox/prisma`: the data layer of an application that uses Prisma 6 or 7 over a pool of pg or mariadb. */
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { dataLayerOf } from '../library/layer.js';
import { pgDriver, type PgPool } from '../library/library.js';
import { isMariadbPool, mariadbDriver, type MariadbPool } from './mariadb.js';

/** What we use of a generated client. */
interface PrismaDatabase {
  // eslint-disable-next-line typescript/no-explicit-any -- of the least that each generated one can be assigned to
  $transaction(work: (tx: any) => Promise<any>, options?: any): Promise<any>;
}
type TransactionOf<Client extends PrismaDatabase> = Parameters<Parameters<Client['$transaction']>[0]>[0] & object;
interface Transaction {
  $queryRawUnsafe(statement: string): Promise<unknown>;
}

/** From 7.5 on what a transaction has; with releases before it each enqueue asks. */
const SCOPE = Symbol.for('prisma.client.transaction.scope_context');

const ISOLATION = {
  'READ UNCOMMITTED': 'ReadUncommitted',
  'READ COMMITTED': 'ReadCommitted',
  'REPEATABLE READ': 'RepeatableRead',
  SERIALIZABLE: 'Serializable',
} as const;

/**
 * A transaction is what an interactive `$transaction` hands to its callback: `outbox.enqueue(event, { tx })`. The first enqueue in it
 * asks which connection it has, by one statement.
 * @param prisma made with `adapter: new PrismaPg(pool)`, or `new PrismaMariaDb(pool)`; also an extended one
 * @param pool of pg or mariadb: the same one; the relay's own connections have its options, and are mysql2's on MariaDB and MySQL
 */
export function prismaLayer<Client extends PrismaDatabase>(
  prisma: Client,
  pool: PgPool | MariadbPool,
): OutboxDataLayer<TransactionOf<Client>> {
  return dataLayerOf<TransactionOf<Client>>({
    source: prisma,
    driver: isMariadbPool(pool) ? mariadbDriver(pool) : pgDriver(pool),
    howTo:
      'Pass { tx } from prisma.$transaction(async (tx) => …), or call it inside outbox.transaction(…). The client must be over the pool that prismaLayer(prisma, pool) has.',
    isHandle: (handle) => '$queryRawUnsafe' in handle,
    isDatabase: (handle) => (handle as { $connect?: unknown }).$connect !== undefined,
    identityOf: (tx) => (tx as Record<symbol, object | undefined>)[SCOPE],
    ask: (tx, statement) => (tx as Transaction).$queryRawUnsafe(statement),
    transaction: (work, isolation) =>
      prisma.$transaction(
        work,
        isolation === undefined ? undefined : { isolationLevel: ISOLATION[isolation] },
      ) as Promise<never>,
  });
}
