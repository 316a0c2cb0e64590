import type { DataLayerHarness, OpenedDataLayer } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from './databases.js';
import type { DatabaseKind } from './services.js';

/** A pool of pg has ended before its clients have: dropping the database ends them, which it would throw. */
export function unshaken<Pool extends { on(event: 'error', listener: () => void): unknown }>(pool: Pool): Pool {
  pool.on('error', () => undefined);
  return pool;
}

/** A harness on a database of its own, which has the table of the contract. */
export function dataLayerHarness<Tx extends object>(
  kind: DatabaseKind,
  open: (url: string, connections: number) => Promise<OpenedDataLayer<Tx>>,
  createTable: (opened: OpenedDataLayer<Tx>, sql: string) => Promise<unknown>,
): DataLayerHarness<Tx> {
  let database: TestDatabase;
  return {
    async start() {
      database = await createTestDatabase(kind);
      const first = await open(database.url, 1);
      await createTable(first, 'create table contract_row (id int not null primary key)').finally(() => first.close());
    },
    open: (connections) => open(database.url, connections),
    stop: () => database.drop(),
  };
}
