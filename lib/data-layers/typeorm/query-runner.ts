import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import type { TransactionHandle } from '../../outbox.options.js';

/** What TypeORM 0.3 and 1.x have, but declare differently or not at all. */
interface RunnerInternals {
  readonly transactionDepth?: number;
  /** 1.x. */
  readonly dataSource?: DataSource;
  /** 0.3. */
  readonly connection?: DataSource;
  readonly databaseConnection?: {
    /** Of pg 8.23 and later: what the server said with its last answer. */
    getTransactionStatus?(): unknown;
    /** Of pg: nothing is on its way. */
    readonly readyForQuery?: boolean;
    /** Of mysql2. */
    readonly stream?: { readonly bytesWritten?: number };
  };
}

/** 1 in a transaction, one more per savepoint; `undefined` if this TypeORM does not tell. */
export function depthOf(runner: QueryRunner): number | undefined {
  return (runner as unknown as RunnerInternals).transactionDepth;
}

export function dataSourceOf(handle: TransactionHandle): DataSource | undefined {
  const { dataSource, connection } = handle as unknown as RunnerInternals;
  return dataSource ?? connection;
}

/**
 * `isTransactionActive` alone is not enough: it is set before START TRANSACTION is sent, and stays when that fails.
 * The depth grows only after it succeeded.
 */
export function isActive(runner: QueryRunner): boolean {
  return runner.isTransactionActive && !runner.isReleased && depthOf(runner) !== 0;
}

/** Whether a statement has failed and PostgreSQL takes nothing but the end, as its last answer said; `false` where nobody tells. */
export function isAborted(runner: QueryRunner): boolean {
  return (runner as unknown as RunnerInternals).databaseConnection?.getTransactionStatus?.() === 'E';
}

/** Whether PostgreSQL said with its last answer that there is no transaction; `false` where nobody tells. */
export function isOver(runner: QueryRunner): boolean {
  return (runner as unknown as RunnerInternals).databaseConnection?.getTransactionStatus?.() === 'I';
}

/** Whether a statement is on its way to PostgreSQL, which may be what ends the transaction. */
export function isBusy(runner: QueryRunner): boolean {
  return (runner as unknown as RunnerInternals).databaseConnection?.readyForQuery === false;
}

/** To MySQL or MariaDB, on the connection of this runner; `undefined` where nobody tells. */
export function bytesSent(runner: QueryRunner): number | undefined {
  return (runner as unknown as RunnerInternals).databaseConnection?.stream?.bytesWritten;
}

export function isMysql(runner: QueryRunner): boolean {
  return dataSourceOf(runner)?.options.type !== 'postgres';
}

/** By shape, not by `instanceof`: an application may have two copies of TypeORM. */
export function isQueryRunner(handle: object): handle is QueryRunner {
  return 'isTransactionActive' in handle && 'commitTransaction' in handle;
}
export function isEntityManager(handle: object): handle is EntityManager {
  return 'getRepository' in handle && 'transaction' in handle && !('createQueryRunner' in handle);
}
