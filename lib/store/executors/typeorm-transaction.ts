import { QueryFailedError, type EntityManager, type QueryRunner } from 'typeorm';
import type { Sql } from '../sql.js';
import type { SqlExecutor, SqlResult } from './executor.js';
import { RAW, withoutValues, type PgClient } from './postgres-connection.js';

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

async function runPostgres(client: unknown, { statement, values }: Sql): Promise<SqlResult> {
  const query = { text: statement.positional, values, rowMode: 'array', types: RAW } as const;
  const { rows, rowCount } = await (client as PgClient).query(query).catch(withoutValues);
  return { rows: rows ?? [], affected: rowCount ?? 0 };
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
      if (error !== null) reject(error);
      else if (Array.isArray(result)) resolve({ rows: result as unknown[][], affected: result.length });
      else resolve({ rows: [], affected: (result as { affectedRows?: number }).affectedRows ?? 0 });
    });
  });
}
