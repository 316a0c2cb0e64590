import type { StoreSettings, TableNames } from '../../names.js';
import type { PartitionDialect } from '../../sql/partitions.js';
import { statement } from '../../sql.js';
import { lockName } from '../schema/lock.js';
import { readLayout } from './layout.js';
import { MysqlPartitionSession } from './session.js';

export function mysqlPartitions(names: TableNames, settings: StoreSettings): PartitionDialect {
  const name = lockName({ schema: settings.schema, prefix: `${settings.prefix}partitions` });
  return {
    lock: statement(undefined, 'select get_lock(?, 0)').bind(name),
    unlock: statement(undefined, 'select release_lock(?)').bind(name),
    layout: (db) => readLayout(db, names, settings),
    session: (connection, lockTimeout) => new MysqlPartitionSession(connection, names, settings, lockTimeout),
  };
}
