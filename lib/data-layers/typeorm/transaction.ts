import { QueryFailedError, type QueryRunner } from 'typeorm';
import type { SqlExecutor } from '../../store/executor.js';
import { runOnMysql } from '../drivers/mysql-executor.js';
import { runOnPostgres } from '../drivers/postgres-executor.js';
import { isMysql } from './query-runner.js';

/**
 * The caller's transaction. Runs on the driver's own connection, past TypeORM's query log and its error's copy of the
 * parameters: payloads belong into neither. The caller still sees TypeORM's `QueryFailedError` with the driver's error.
 * Whether a transaction is active is the caller's question, asked before.
 */
export function transactionExecutor(runner: QueryRunner): SqlExecutor {
  const run = isMysql(runner) ? runOnMysql : runOnPostgres;
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
