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
  acquireConnection: () => Promise<object>;
}

const HOW_TO = 'Pass { tx: trx } from knex.transaction((trx) => …), or call it inside outbox.transaction(…).';

/**
 * A transaction is what `knex.transaction` hands to its callback, or resolves to without one: `outbox.enqueue(event, { tx: trx })`.
 * Its first enqueue sends a statement that tells its connection.
 * @param knex of `client: 'pg'` or `'mysql2'`; the relay's own connections have its `connection`, and know no `searchPath`
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: it has another client. `INVALID_OPTIONS`: its `connection` is a function
 */
export function knexLayer(knex: Knex): OutboxDataLayer<Knex.Transaction> {
  const client = knex.client as Client;
  const relay = relayOf(client);
  return dataLayerOf<Knex.Transaction>({
    source: client,
    driver: { relay, connectionOf: (connection) => connection, onConnection: (seen) => watchAcquired(client, seen) },
    howTo: HOW_TO,
    // The root has none of it, and would take a connection of the pool to answer.
    isHandle: (handle) => 'isCompleted' in handle,
    hasEnded: (trx) => (trx as Knex.Transaction).isCompleted(),
    ask: async (trx, statement) => trx.raw(statement),
    transaction(work, isolation) {
      const isolationLevel = isolation?.toLowerCase() as Knex.IsolationLevels | undefined;
      return knex.transaction(work, isolationLevel && { isolationLevel });
    },
    nested: (trx, work) => trx.transaction(work),
  });
}

/** Also those of a pool that Knex makes later, or was given. */
function watchAcquired(client: Client, seen: (connection: object) => void): void {
  const original = client.acquireConnection;
  client.acquireConnection = async () => {
    const connection = await original.call(client);
    seen(connection);
    return connection;
  };
}

function relayOf({ driverName, driver, config, connectionSettings }: Client): Driver['relay'] {
  const given = config.connectionPool && poolDriver(config.connectionPool);
  const isKnown = driverName === 'pg' || driverName === 'mysql2';
  if (!isKnown || (config.connectionPool !== undefined && given === undefined)) {
    throw new OutboxConfigurationError(
      'UNSUPPORTED_DATABASE',
      `knexLayer: Knex is over no connections of pg or mysql2.`,
      {
        hint: "Make it with knex({ client: 'pg', connection: { … } }), or client: 'mysql2'.",
      },
    );
  }
  if (given !== undefined) return given.relay;
  if (typeof config.connection === 'function') {
    throw new OutboxConfigurationError('INVALID_OPTIONS', "knexLayer: Knex's connection is a function.", {
      hint: 'Give Knex an object; for a password that changes, its password may be a function with pg, and authPlugins has one with mysql2.',
    });
  }
  if (driverName === 'pg') return { postgres: { Client: driver.Client, options: connectionSettings } };
  // The driver reads its own settings, such as a URL: this opens no connection.
  return mysql2Driver(driver.createPool({ ...connectionSettings, password: connectionSettings.password })).relay;
}
