import { literal, type TableNames } from '../../names.js';
import type { PartitionDialect } from '../../sql/partitions.js';
import { statement } from '../statement.js';
import { readLayout } from './layout.js';
import { PostgresPartitionSession } from './session.js';

export function postgresPartitions(names: TableNames, prefix: string): PartitionDialect {
  const lock = `hashtextextended(${literal(`nestjs-outbox partitions ${names.archive}`)}, 0)`;
  return {
    lock: statement(undefined, `select case when pg_catalog.pg_try_advisory_lock(${lock}) then 1 end`).bind(),
    unlock: statement(undefined, `select pg_catalog.pg_advisory_unlock(${lock})`).bind(),
    layout: (db) => readLayout(db, names, prefix),
    session: (connection, lockTimeout) => new PostgresPartitionSession(connection, names, prefix, lockTimeout),
  };
}
