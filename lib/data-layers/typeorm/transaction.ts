import { QueryFailedError, type EntityManager, type QueryRunner } from 'typeorm';
import type { Sql } from '../../store/sql.js';
import type { SqlExecutor, SqlResult } from '../../store/executor.js';
import { withoutStatement } from './mysql-connection.js';
import { PREPARED_ELSEWHERE, RAW, withoutValues, type PgClient } from './postgres-connection.js';

/**
 * The caller's transaction. Runs on the driver's own connection, past TypeORM's query log and its error's copy of the
 * parameters: payloads belong into neither. The caller still sees TypeORM's `QueryFailedError` with the driver's error.
 * Whether a transaction is active is the caller's question, asked before.
 */
export function transactionExecutor(handle: EntityManager | QueryRunner): SqlExecutor {
  const runner = queryRunnerOf(handle);
  const run = isPostgres(runner) ? runPostgres : runMysql;
  return {
    async run(sql) {
      const client: unknown = await runner.connect();
      try {
        return await run(client, sql);
      } catch (error) {
        throw new QueryFailedError(sql.statement.positional, [], error as Error);
      }
    },
  };
}

function queryRunnerOf(handle: EntityManager | QueryRunner): QueryRunner {
  const runner =
    'queryRunner' in handle && handle.queryRunner !== undefined ? handle.queryRunner : (handle as QueryRunner);
  if (typeof runner.connect !== 'function') throw new TypeError('There is no query runner behind this manager.');
  return runner;
}

function isPostgres(runner: QueryRunner): boolean {
  const type = runner.manager.connection.options.type;
  return type === 'postgres';
}

async function runPostgres(connection: unknown, { statement, values }: Sql): Promise<SqlResult> {
  const client = connection as PgClient;
  const name = statement.name !== undefined && (await mayPrepare(client)) ? statement.name : undefined;
  const query = { name, text: statement.positional, values, rowMode: 'array', types: RAW } as const;
  const { rows, rowCount } = await inText(client, query).catch((error: unknown) => {
    if (name !== undefined && preparingFails(error)) prepares.set(client, false);
    return withoutValues(error);
  });
  const status = (client as TellingClient).getTransactionStatus?.();
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

/** pg 8.23 and later: what the server said with its last answer. */
interface TellingClient extends PgClient {
  getTransactionStatus?(): unknown;
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

/** What we use of mysql2's and mysql's connection. */
interface MysqlClient {
  query(
    options: { sql: string; values: readonly unknown[]; rowsAsArray: true },
    done: (error: Error | null, result: unknown) => void,
  ): void;
}

function runMysql(client: unknown, { statement, values }: Sql): Promise<SqlResult> {
  return new Promise((resolve, reject) => {
    (client as MysqlClient).query({ sql: statement.questionMarks, values, rowsAsArray: true }, (error, result) => {
      if (error !== null) reject(withoutStatement(error));
      else if (Array.isArray(result)) resolve({ rows: result as unknown[][], affected: result.length });
      else resolve(answerOf(result as MysqlHeader));
    });
  });
}

/** Of what returns no rows. */
interface MysqlHeader {
  affectedRows?: number;
  serverStatus?: number;
}
/** MySQL's `SERVER_STATUS_IN_TRANS`. */
const IN_TRANSACTION = 1;

function answerOf({ affectedRows = 0, serverStatus }: MysqlHeader): SqlResult {
  const inTransaction = serverStatus === undefined ? undefined : (serverStatus & IN_TRANSACTION) !== 0;
  return { rows: [], affected: affectedRows, inTransaction };
}
