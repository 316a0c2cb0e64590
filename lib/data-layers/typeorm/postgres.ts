import type { DataSource } from 'typeorm';
import type { SqlDatabase } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import type { PostgresSource } from '../drivers/postgres-clients.js';
import { PostgresDatabase } from '../drivers/postgres-database.js';

export function openPostgresDatabase(application: DataSource, settings: StoreSettings): SqlDatabase {
  return new PostgresDatabase(sourceOf(application), settings);
}

/** To the primary, with the same Client and the same options as TypeORM's own connections. */
export function sourceOf({ driver, options }: DataSource): PostgresSource {
  const { replication, extra, ...all } = options as Options & { replication?: { master: Options } };
  const { url: connectionString, username: user, host, port, database, password, ssl } = replication?.master ?? all;
  const { Client } = (driver as unknown as { postgres: Pick<PostgresSource, 'Client'> }).postgres;
  return {
    Client: extra?.Client ?? Client,
    options: { connectionString, host, port, user, password, database, ssl, ...extra },
  };
}

/** What leads a connection of TypeORM's to its server. */
interface Options extends Partial<
  Record<'url' | 'username' | 'host' | 'port' | 'database' | 'password' | 'ssl', string>
> {
  readonly extra?: Partial<Pick<PostgresSource, 'Client'>>;
}
