/** `nestjs-outbox/kysely`: the data layer of an application that uses Kysely over a pool of pg or mysql2. */
import type { IsolationLevel, Kysely, Transaction } from 'kysely';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { dataLayerOf } from '../library/layer.js';
import { poolDriver } from '../library/library.js';

/** The class behind `db.transaction()`; it is the same for all databases of this Kysely. */
interface Builder {
  execute: (work: (trx: Transaction<never>) => Promise<unknown>, ...rest: unknown[]) => Promise<unknown>;
}

const HOW_TO =
  'Pass { tx: trx } from db.transaction().execute((trx) => …), or call it inside outbox.transaction(…). The pool of kyselyLayer must be that of the dialect.';

/**
 * A transaction is what `db.transaction().execute` hands to its callback, or `db.startTransaction().execute()` resolves to:
 * `outbox.enqueue(event, { tx: trx })`. Its first enqueue sends a statement that tells its connection.
 * @param options.pool of pg or mysql2, the one of the dialect; the relay's own connections have its options
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: the pool is another one
 */
export function kyselyLayer<Db>(db: Kysely<Db>, { pool }: { readonly pool: object }): OutboxDataLayer<Transaction<Db>> {
  const driver = poolDriver(pool);
  if (driver === undefined) {
    throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'kyselyLayer: the pool is none of pg or mysql2.', {
      hint: 'Give it the pool of new PostgresDialect({ pool }) or new MysqlDialect({ pool }) itself.',
    });
  }
  watchEnds(db);
  return dataLayerOf<Transaction<Db>>({
    source: db,
    driver,
    howTo: HOW_TO,
    isHandle: (handle) => 'getExecutor' in handle,
    isDatabase: (handle) => !(handle as Kysely<Db>).isTransaction,
    hasEnded: (trx) => ended.get((trx as Transaction<Db>).getExecutor()) ?? !tellsEnd(db, trx as Transaction<Db>),
    identityOf: (trx) => (trx as Transaction<Db>).getExecutor(),
    async ask(trx, statement) {
      const execute = trx.executeQuery.bind(trx); // of a proxy now
      const { CompiledQuery } = await import('kysely');
      return execute(CompiledQuery.raw(statement));
    },
    transaction(work, isolation) {
      const builder = db.transaction();
      const level = isolation?.toLowerCase() as IsolationLevel | undefined;
      return (level === undefined ? builder : builder.setIsolationLevel(level)).execute(work);
    },
  });
}

/** Whether they have ended: by the executor of transactions that a callback was given. */
const ended = new WeakMap<object, boolean>();
const watched = new WeakSet<object>();

/** Before 0.28.11 a transaction ran statements after its end, on a connection that may be in another one by then. */
function watchEnds<Db>(db: Kysely<Db>): void {
  const builder = Object.getPrototypeOf(db.transaction()) as Builder;
  if (watched.has(builder)) return;
  watched.add(builder);
  const { execute } = builder;
  builder.execute = function executeWatched(work, ...rest) {
    const around = async (trx: Transaction<never>): Promise<unknown> => {
      ended.set(trx.getExecutor(), false);
      try {
        return await work(trx);
      } finally {
        ended.set(trx.getExecutor(), true);
      }
    };
    return execute.call(this, around, ...rest);
  };
}

/** One that no callback was given, such as `trx.withSchema(…)`, refuses statements behind its end, unlike the database. */
function tellsEnd<Db>(db: Kysely<Db>, trx: Transaction<Db>): boolean {
  return trx.getExecutor().constructor !== db.getExecutor().constructor;
}
