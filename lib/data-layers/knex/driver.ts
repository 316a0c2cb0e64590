import { OutboxConfigurationError } from '../../outbox.errors.js';
import { mysql2Driver, poolDriver, type Driver, type Mysql2Pool } from '../library/library.js';

/** What we use of Knex's client. */
export interface KnexClient {
  readonly driverName?: string;
  readonly driver: { readonly Client: never; createPool(options: object): Mysql2Pool };
  /** `connectionPool` stands in place of `connection`. */
  readonly config: { readonly connection?: unknown; readonly connectionPool?: object };
  /** Its password cannot be enumerated. */
  readonly connectionSettings: { readonly password?: unknown };
  readonly pool?: { on(event: 'acquireSuccess', listener: (id: number, connection: object) => void): void };
}

/**
 * @param layer the function that was called, and how its object is made: for errors
 * @throws OutboxConfigurationError
 */
export function knexDriver(client: KnexClient | undefined, layer: string, madeWith: string): Driver {
  const { driverName, config = {}, pool } = client ?? {};
  const isKnown = driverName === 'pg' || driverName === 'mysql2';
  const given = config.connectionPool && poolDriver(config.connectionPool);
  if (isKnown && given !== undefined) return given;
  if (client === undefined || !isKnown || pool === undefined || config.connectionPool !== undefined) {
    throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', `${layer}: Knex has no pool of pg or mysql2.`, {
      hint: madeWith,
    });
  }
  return {
    pool,
    connectionOf: (connection) => connection,
    onConnection: (seen) => pool.on('acquireSuccess', (_, connection) => seen(connection)),
    relay: relayOf(client, layer),
  };
}

function relayOf({ driverName, driver, config, connectionSettings }: KnexClient, layer: string): Driver['relay'] {
  if (typeof config.connection === 'function') {
    throw new OutboxConfigurationError('INVALID_OPTIONS', `${layer}: Knex's connection is a function.`, {
      hint: 'Give an object. Where a password changes, pg takes a function for it, and mysql2 has authPlugins.',
    });
  }
  if (driverName === 'pg') return { postgres: { Client: driver.Client, options: connectionSettings } };
  // mysql2 reads its settings by itself, a URL among them; this opens no connection.
  return mysql2Driver(driver.createPool({ ...connectionSettings, password: connectionSettings.password })).relay;
}
