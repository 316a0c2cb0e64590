import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import type { SqlExecutor } from '../../store/executor.js';
import { tableNames, type TableNames } from '../../store/names.js';
import type { SchemaSession } from '../../store/schema/session.js';
import { Statement } from '../../store/sql.js';
import type { DataLayer } from '../../transaction/data-layer.js';
import type { OutboxDialect } from '../drivers/outbox-sql.js';

/** Where the tables of an outbox are. */
export interface Place {
  /** Of its options. Default: the connection's. */
  readonly schema?: string | undefined;
  readonly prefix: string;
  readonly pooler?: boolean | string | undefined;
}
/** A session of its own, between whose statements nobody else's come. */
export interface OwnSession extends SchemaSession {
  transaction<T>(work: (tx: SchemaSession) => Promise<T>): Promise<T>;
}
/** The database of an outbox, past its store: for who reads, makes and changes its tables. */
export interface TablesDatabase {
  readonly dialect: OutboxDialect;
  /** The connection's. */
  readonly schema: string | undefined;
  readonly names: TableNames;
  query: SchemaSession['query'];
  /** What is locked in it is lost with it. */
  alone<T>(work: (session: OwnSession) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Milliseconds: a change of a table takes as long as it takes. */
const A_DAY = 86_400_000;

/** @param connectTimeout milliseconds */
export async function openTablesDatabase(
  given: OutboxDataLayer,
  { schema, prefix, pooler }: Place,
  connectTimeout: number,
): Promise<TablesDatabase> {
  const dataLayer = given as DataLayer;
  await dataLayer.open();
  const { dialect, defaultSchema } = dataLayer;
  const place = { schema: schema ?? defaultSchema, prefix };
  const as = { buckets: 1, ordering: 'key', coordination: 'buckets', onPublished: 'delete', errorHistory: 0 } as const;
  const times = { statementTimeout: A_DAY, idleWithLocks: A_DAY, connectTimeout };
  const database = dataLayer.openDatabase({ ...place, ...as, ...times, pooler });
  const { alone } = database as Required<typeof database>;
  return {
    dialect,
    schema: defaultSchema,
    names: tableNames(place, dialect === 'postgres' ? '"' : '`'),
    query: sessionOf(database.connection('admin')).query,
    alone: (work) =>
      alone.call(database, (session) =>
        work({
          ...sessionOf(session),
          transaction: (inside) => session.transaction((tx) => inside(sessionOf(tx))),
        }),
      ) as ReturnType<typeof work>,
    close: () => database.close(),
  };
}

const sessionOf = (db: SqlExecutor): SchemaSession => ({
  isTransactionActive: false,
  query: async (sql, values = []) => {
    const statement = Object.assign(new Statement(undefined, ''), { positional: sql, questionMarks: sql });
    return (await db.run({ statement, values })).rows;
  },
});
