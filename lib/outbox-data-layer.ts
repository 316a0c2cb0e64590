import type { EntityManager, QueryRunner } from 'typeorm';

/**
 * How an outbox reaches the application's database: what `pgLayer`, `mysql2Layer`, `drizzleLayer` and `typeOrmLayer` return.
 * @typeParam Tx what the library hands out as a transaction
 */
export interface OutboxDataLayer<Tx extends object = object> {
  /** The application's own object: a pool, a client. Outboxes with the same one share its transactions. */
  readonly source: object;
  /** Begins a transaction; commits when `work` resolves, and rolls back when it rejects. */
  transaction<T>(work: (tx: Tx) => Promise<T>, isolation?: IsolationLevel): Promise<T>;
}
/** Of a new transaction. */
export type IsolationLevel = 'READ UNCOMMITTED' | 'READ COMMITTED' | 'REPEATABLE READ' | 'SERIALIZABLE';

/**
 * Names the data layer of an application, so that its transactions have their own type:
 * `declare module 'nestjs-outbox' { interface Register { dataLayer: typeof dataLayer } }`. Without it they are TypeORM's.
 */
// eslint-disable-next-line typescript/no-empty-interface -- applications add to it
export interface Register {}

/** What `outbox.transaction` hands to its callback. */
export type OutboxTransaction = Register extends { dataLayer: OutboxDataLayer<infer Tx> } ? Tx : EntityManager;
/** The caller's transaction. Of TypeORM, a repository's `manager` is one. */
export type TransactionHandle = Register extends { dataLayer: OutboxDataLayer }
  ? OutboxTransaction
  : EntityManager | QueryRunner;
