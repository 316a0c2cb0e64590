import type { DataSource } from 'typeorm';
import type { SqlDatabase } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import type { MysqlSource } from '../drivers/mysql-clients.js';
import { MysqlDatabase } from '../drivers/mysql-database.js';

export function openMysqlDatabase(application: DataSource, settings: StoreSettings): SqlDatabase {
  return new MysqlDatabase(sourceOf(application), settings);
}

/** To the primary, with the options of TypeORM's own connections. */
export function sourceOf({ driver, options }: DataSource): MysqlSource {
  const { replication } = options as { replication?: { master: object } };
  const ofMysql = driver as unknown as MysqlDriver;
  return {
    createConnection: ofMysql.mysql.createConnection,
    options: ofMysql.createConnectionOptions(options, replication?.master ?? options),
  };
}

/** Of TypeORM's driver: the package, and what it would give to it. */
interface MysqlDriver {
  readonly mysql: MysqlSource;
  createConnectionOptions(options: object, credentials: object): object;
}
