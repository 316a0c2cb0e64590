import type { OutboxDataLayer } from '../outbox-data-layer.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { SqlDatabase, SqlExecutor } from '../store/executor.js';
import type { StoreSettings } from '../store/names.js';
import type { TransactionWatch } from './transaction-watch.js';

/**
 * SEAM: the library through which an application reaches its database. It finds the caller's transaction, and opens the
 * relay's own connections. It knows no message, and no statement of a store.
 */
export interface DataLayer extends OutboxDataLayer {
  /** Which store works on it. Throws where none does. */
  readonly dialect: 'postgres' | 'mysql';
  /** How a caller says in which transaction he is: the hint of an error. */
  readonly howTo: string;

  /** The session of a handle; `undefined` for a handle of none. A promise asks, and rejects for none. Throws for what is no handle. */
  find(handle: unknown): Session | Promise<Session> | undefined;
  /** The same, of an active transaction: throws `OutboxTransactionRequiredError` for anything else. */
  require(handle: unknown): Session | Promise<Session>;
  /**
   * From now on transactions are watched from their beginning: one whose ROLLBACK is on its way when the first message is enqueued
   * looks active still.
   * @param ambient the session of the transaction around a call: a write beside it is worth a warning. Without it, what was given
   * before stays
   */
  watchTransactions(ambient?: () => Session | undefined, warn?: (text: string) => void): void;

  /** Before anything else: asks what it has to know. Throws while the application has not opened it. */
  open(): void | Promise<void>;
  /** The schema that a statement without one means; on MySQL and MariaDB the database. */
  readonly defaultSchema: string | undefined;
  tablesOf(options: ResolvedOptions): Tables;
  /** The relay's own connections to the primary. */
  openDatabase(settings: StoreSettings): SqlDatabase;
}

/** Which tables an outbox has: the same for two data layers of one database. */
export interface Tables {
  /** What the application has of its data layer itself, where its options do not say which server it reaches. */
  readonly server: string | object;
  readonly names: string;
}

/** SEAM: a session of the application's, in which transactions begin and end. */
export interface Session {
  /** One for each session, whatever handle led to it. */
  readonly watch: TransactionWatch;
  /** The argument of the callback of `outbox.transaction`. */
  readonly handle: object;
  /** Runs statements of ours in it, past what the application logs of its own. */
  readonly executor: SqlExecutor;
  /** Whether a transaction is open, as far as this side knows. */
  readonly isActive: boolean;
  /** Throws `OutboxTransactionRequiredError` unless one is, on the primary of the outbox's own database. */
  demandActive(): void;
  /** Before each write: from here on every statement, and every end of a transaction, comes by the watch. */
  listen(): TransactionWatch;
  /** A savepoint in its transaction; `work` rejects: back to it. */
  nested<T>(work: (handle: object) => Promise<T>): Promise<T>;
}
