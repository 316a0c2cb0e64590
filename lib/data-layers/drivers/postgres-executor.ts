import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import type { DriverConnection } from '../../transaction/transaction-watch.js';
import { PREPARED_ELSEWHERE, RAW, withoutValues, type PgClient } from './postgres-connection.js';

/** Runs a statement in the application's transaction, on its client: past whatever logs the application's own. */
export async function runOnPostgres(connection: unknown, { statement, values }: Sql): Promise<SqlResult> {
  const client = connection as PgClient;
  const name = statement.name !== undefined && (await mayPrepare(client)) ? statement.name : undefined;
  const query = { name, text: statement.positional, values, rowMode: 'array', types: RAW } as const;
  const { rows, rowCount } = await inText(client, query).catch((error: unknown) => {
    if (name !== undefined && preparingFails(error)) prepares.set(client, false);
    return withoutValues(error);
  });
  const status = (client as DriverConnection).getTransactionStatus?.();
  return { rows: rows ?? [], affected: rowCount ?? 0, inTransaction: status === 'I' ? false : undefined };
}

/** Of a client that asks for bytes: it looks at its setting as it takes the query. */
function inText(client: PgClient, query: Parameters<PgClient['query']>[0]): ReturnType<PgClient['query']> {
  if (client.binary !== true) return client.query(query);
  client.binary = false;
  try {
    return client.query(query);
  } finally {
    client.binary = true;
  }
}

/** Of the application's connections: whether statements may be prepared on them. */
const prepares = new WeakMap<PgClient, boolean>();
/** Of pg itself, which takes one text for a name: a tracer changes them. */
const TWO_TEXTS = /^Prepared statements must be unique/;
function preparingFails(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  return PREPARED_ELSEWHERE.has(code) || code === OTHER_RESULT || TWO_TEXTS.test(message ?? '');
}
/** A statement whose result changed: somebody altered the table. */
const OTHER_RESULT = '0A000';

/**
 * Only where nobody stands between: behind a transaction pooler the next statement may meet another server process, which
 * knows nothing of what was prepared. A pooler shows when a client's process id is not the one that the server tells:
 * it has to hand out ids of its own, for cancel requests. Asked once per connection.
 */
async function mayPrepare(client: PgClient): Promise<boolean> {
  const known = prepares.get(client);
  if (known !== undefined) return known;
  const { rows } = await inText(client, { text: 'select pg_catalog.pg_backend_pid()', rowMode: 'array', types: RAW });
  const direct = Number(rows[0]?.[0]) === client.processID;
  prepares.set(client, direct);
  return direct;
}
