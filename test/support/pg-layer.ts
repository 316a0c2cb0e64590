import type { Client, Pool } from 'pg';
// From inside: the entries load TypeORM.
import { OutboxTransactionRequiredError } from '../../lib/outbox.errors.js';
import type { SqlDatabase, SqlExecutor } from '../../lib/store/executor.js';
import type { Tables } from '../../lib/transaction/tables.js';
import type { DataLayer, Session } from '../../lib/transaction/data-layer.js';
import { TransactionWatch } from '../../lib/transaction/transaction-watch.js';
import { around, executorOn, pgDatabase, queryOf, TRANSACTION, type Query } from './pg-database.js';

/** A client of the application's pool: each of its statements passes the watch, but for those of an enqueue. */
class PgSession extends TransactionWatch implements Session {
  readonly watch = this;
  readonly executor: SqlExecutor;
  constructor(readonly handle: Client) {
    super(false, () => handle as never);
    const query = queryOf(handle);
    this.executor = executorOn(query);
    handle.query = ((...args: Parameters<Query>) => this.pass(args[0], args[1], () => query(...args))) as never;
  }
  get isActive(): boolean {
    return !this.isOver();
  }
  demandActive(): void {
    if (!this.isActive) throw new OutboxTransactionRequiredError('The client has no transaction.');
  }
  listen(): TransactionWatch {
    return this;
  }
  nested<T>(work: (handle: object) => Promise<T>): Promise<T> {
    return around(queryOf(this.handle), ['savepoint s', 'release s', 'rollback to s'], () => work(this.handle));
  }
}

/** A data layer over pg alone: what the seam asks for, and no more. */
export class PgLayer implements DataLayer {
  readonly dialect = 'postgres';
  readonly howTo = 'Pass { manager: client }.';
  readonly defaultSchema = 'public';
  readonly sessions = new WeakMap<object, PgSession>();
  constructor(readonly source: Pool) {}
  find = (handle: unknown): PgSession | undefined => this.sessions.get(handle as object);
  require(handle: unknown): PgSession {
    const session = this.find(handle);
    if (session === undefined) throw new OutboxTransactionRequiredError('This is no client of the pool.');
    session.demandActive();
    return session;
  }
  async transaction<T>(work: (handle: object) => Promise<T>): Promise<T> {
    const client = (await this.source.connect()) as unknown as Client & { release(): void };
    return around(queryOf(client), TRANSACTION, () => work(client)).finally(() => client.release());
  }
  watchTransactions(): void {
    this.source.on('connect', (client) => this.sessions.set(client, new PgSession(client as unknown as Client)));
  }
  demandOpen(): void {}
  tablesOf = (): Tables => ({ server: this.source, names: 'outbox_' });
  openDatabase = (): SqlDatabase => pgDatabase(this.source.options.connectionString);
}
