/** `nestjs-outbox/knex`: the data layer of an application that uses Knex over pg or mysql2. */
import type { Knex } from 'knex';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { dataLayerOf } from '../library/layer.js';
import { mysql2Driver, poolDriver, type Driver, type Mysql2Pool } from '../library/library.js';

/** What we use of Knex's client. */
interface Client {
  readonly driverName?: string;
  readonly driver: { readonly Client: never; createPool(options: object): Mysql2Pool };
  /** `connectionPool` stands in place of `connection`. */
  readonly config: { readonly connection?: unknown; readonly connectionPool?: object };
  /** Its password cannot be enumerated. */
  readonly connectionSettings: { readonly password?: unknown };
  readonly pool?: { on(event: 'acquireSuccess', listener: (id: number, connection: object) => void): void };
}

const HOW_TO = 'Pass { tx: trx } from knex.transaction((trx) => …), or call it inside outbox.transaction(…).';

/**
 * A transaction is what `knex.transaction` hands to its callback, or resolves to without one: `outbox.enqueue(event, { tx: trx })`.
 * Its first enqueue sends a statement that tells its connection.
 * @param knex of `client: 'pg'` or `'mysql2'`; the relay's own connections have its `connection`, and know no `searchPath`
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: it has another client. `INVALID_OPTIONS`: its `connection` is a function
 */
export function knexLayer(knex: Knex): OutboxDataLayer<Knex.Transaction> {
  const client = (knex.client ?? { config: {} }) as Client;
  return dataLayerOf<Knex.Transaction>({
    source: knex,
    driver: driverOf(client),
    howTo: HOW_TO,
    isHandle: (handle) => 'raw' in handle,
    // The root has none of it, and would take a connection of the pool to answer.
    isDatabase: (handle) => (handle as Partial<Knex.Transaction>).isCompleted === undefined,
    hasEnded: (trx) => (trx as Knex.Transaction).isCompleted(),
    identityOf: (trx) => (trx as Knex.Transaction).client as object,
    ask: async (trx, statement) => trx.raw(statement),
    transaction(work, isolation) {
      const isolationLevel = isolation?.toLowerCase() as Knex.IsolationLevels | undefined;
      return knex.transaction(work, isolationLevel && { isolationLevel });
    },
    nested: (trx, work) => trx.transaction(work),
  });
}

function driverOf(client: Client): Driver {
  const { driverName, config, pool } = client;
  const isKnown = driverName === 'pg' || driverName === 'mysql2';
  const given = config.connectionPool && poolDriver(config.connectionPool);
  if (isKnown && given !== undefined) return given;
  if (!isKnown || pool === undefined || config.connectionPool !== undefined) {
    throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'knexLayer: Knex has no pool of pg or mysql2.', {
      hint: "Make it with knex({ client: 'pg', connection: { … } }), or client: 'mysql2'.",
    });
  }
  return {
    pool,
    connectionOf: (connection) => connection,
    onConnection: (seen) => pool.on('acquireSuccess', (_, connection) => seen(connection)),
    relay: relayOf(client),
  };
}

function relayOf({ driverName, driver, config, connectionSettings }: Client): Driver['relay'] {
  if (typeof config.connection === 'function') {
    throw new OutboxConfigurationError('INVALID_OPTIONS', "knexLayer: Knex's connection is a function.", {
      hint: 'Give an object. Where a password changes, pg takes a function for it, and mysql2 has authPlugins.',
    });
  }
  if (driverName === 'pg') return { postgres: { Client: driver.Client, options: connectionSettings } };
  // mysql2 reads its settings by itself, a URL among them; this opens no connection.
  return mysql2Driver(driver.createPool({ ...connectionSettings, password: connectionSettings.password })).relay;
}
