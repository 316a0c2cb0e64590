import type { SchemaDefinition } from '../../names.js';
import { CATCH_ALL } from '../partitions/layout.js';
import { createTable } from './create-table.js';
import { mysqlTables, type MysqlTable } from './tables.js';

/** Of a partitioned table every unique key must have the column that it is partitioned by. */
export function inPartitions(archive: MysqlTable): MysqlTable {
  return { ...archive, keys: { ...archive.keys, primary: ['archive_id', 'published_at'] } };
}

/**
 * The archive in partitions by published time.
 * @param partitions beside the catch-all, in their order
 */
export function createPartitioned(
  name: string,
  definition: SchemaDefinition,
  partitions: readonly string[] = [],
): string {
  const all = [...partitions, `partition ${CATCH_ALL} values less than (maxvalue)`];
  return `${createTable(name, inPartitions(mysqlTables(definition).archive))}
partition by range columns (published_at) (${all.join(', ')})`;
}
