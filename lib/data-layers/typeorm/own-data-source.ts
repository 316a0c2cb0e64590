import { DataSource, type DataSourceOptions } from 'typeorm';
import type { StoreSettings } from '../../store/names.js';

/** On top of the roles' connections: with row locks, one for each transport. */
export const MOST_PUBLISHING = 1_000;

/**
 * A second DataSource to the same primary for the relay. Everything through which the application's options act on
 * the database is switched off: a copy with `dropSchema` or `synchronize` still on would empty it.
 * @param extra of the driver
 * @param address of the server, where it is another way than the application's
 */
export function ownDataSource(
  application: DataSource,
  settings: StoreSettings,
  extra: object,
  address: object = {},
): DataSource {
  const options = application.options as DataSourceOptions & ReplicatedOptions;
  const { replication, ...base } = options;
  return new DataSource({
    ...base,
    ...(replication && { url: undefined, ...replication.master }),
    ...address,
    entities: [],
    subscribers: [],
    migrations: [],
    synchronize: false,
    dropSchema: false,
    migrationsRun: false,
    installExtensions: false,
    cache: false,
    logging: false,
    logNotifications: false,
    poolErrorHandler: () => undefined, // a broken connection is replaced at its next use
    ...(base.type === 'postgres' ? { connectTimeoutMS: settings.connectTimeout } : {}),
    extra: { ...base.extra, ...extra },
  } as DataSourceOptions);
}

interface ReplicatedOptions {
  replication?: { master: object };
  extra?: object;
}
