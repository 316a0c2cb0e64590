import type { OutboxDataLayer } from '../../outbox-data-layer.js';

/** An application over a pool of its own, on the one database of the suite. */
export interface OpenedDataLayer<Tx extends object> {
  readonly dataLayer: OutboxDataLayer<Tx>;
  /** As the application itself does: the outbox is not asked. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Writes a row of the application's into `contract_row (id int primary key)`. */
  insert(tx: Tx, id: number): Promise<unknown>;
  /** The ids of the rows that are committed. */
  rows(): Promise<readonly number[]>;
  /** What is no transaction, and looks like one: the library's own object. */
  readonly outside: object;
  /** Ends the pool. */
  close(): Promise<void>;
}

/** What the contract suite needs to know about a data layer. */
export interface DataLayerHarness<Tx extends object> {
  /** Before all tests and after them: makes the table, and takes it away. */
  start?(): Promise<void>;
  stop?(): Promise<void>;
  /** @param connections of the pool, at most. The suite closes what it opens */
  open(connections: number): Promise<OpenedDataLayer<Tx>>;
  /** Why the library has no savepoints: their tests are left out. */
  readonly noSavepoints?: string;
}
