import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import type { TransactionHandle } from '../../outbox-data-layer.js';
import type { DriverConnection } from '../../transaction/transaction-watch.js';

/** What TypeORM 0.3 and 1.x have, but declare differently or not at all. */
interface RunnerInternals {
  readonly transactionDepth?: number;
  /** 1.x. */
  readonly dataSource?: DataSource;
  /** 0.3. */
  readonly connection?: DataSource;
  readonly databaseConnection?: DriverConnection;
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

/** The driver's own connection, once it has one. */
export function driverOf(runner: QueryRunner): DriverConnection | undefined {
  return (runner as unknown as RunnerInternals).databaseConnection;
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
