/** `nestjs-outbox/knex`: the data layer of an application that uses Knex over pg or mysql2. */
import type { Knex } from 'knex';
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { dataLayerOf } from '../library/layer.js';
import { knexDriver, type KnexClient } from './driver.js';

const MADE_WITH = "Make it with knex({ client: 'pg', connection: { … } }), or client: 'mysql2'.";
const HOW_TO = 'Pass { tx: trx } from knex.transaction((trx) => …), or call it inside outbox.transaction(…).';

/**
 * A transaction is what `knex.transaction` hands to its callback, or resolves to without one: `outbox.enqueue(event, { tx: trx })`.
 * Its first enqueue sends a statement that tells its connection.
 * @param knex of `client: 'pg'` or `'mysql2'`; the relay's own connections have its `connection`, and know no `searchPath`
 * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: it has another client. `INVALID_OPTIONS`: its `connection` is a function
 */
export function knexLayer(knex: Knex): OutboxDataLayer<Knex.Transaction> {
  return dataLayerOf<Knex.Transaction>({
    source: knex,
    driver: knexDriver(knex.client as KnexClient | undefined, 'knexLayer', MADE_WITH),
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
