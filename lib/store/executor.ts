import type { Sql } from './sql.js';

export interface SqlResult {
  /** Rows as arrays, columns in the statement's order. */
  readonly rows: readonly (readonly unknown[])[];
  /** Rows that a write touched. */
  readonly affected: number;
  /** Whether the server says that a transaction is open behind the statement; absent where nobody tells. */
  readonly inTransaction?: boolean | undefined;
}

/** SEAM: runs SQL on one connection, or in the caller's transaction. Knows no statement and no table. */
export interface SqlExecutor {
  run(sql: Sql): Promise<SqlResult>;
}

/** A connection of our own. Statements queue in the order of the calls. */
export interface SqlConnection extends SqlExecutor {
  /** Grows with every reconnect; a reader whose generation changed starts over. */
  readonly generation: number;
  /**
   * BEGIN … COMMIT around `work` on this connection; ROLLBACK when it throws.
   * `ended` aborts as soon as the session is known to be over, and with it the transaction and its locks.
   */
  transaction<T>(work: (tx: SqlExecutor, ended: AbortSignal) => Promise<T>): Promise<T>;
}

/** A call behind the close of the outbox. */
export class StoreClosed extends Error {
  constructor() {
    super('This outbox is closed, as its application is: nothing can be asked of its tables.');
  }
}

/** What the connections are for; each role is one connection, opened at first use, reopened after a failure. */
export type ConnectionRole = 'read' | 'settle' | 'lease' | 'admin';

/** SEAM: the relay's own connections to the primary, apart from the application's pool. */
export interface SqlDatabase {
  connection(role: ConnectionRole): SqlConnection;
  /** One more for each transport whose transactions stay open while messages are published (`coordination: 'rowLock'`). */
  publishing?(transport: number): SqlConnection;
  /**
   * A session for one piece of work, closed behind it. When it ends before, nothing opens it again: what it had locked is lost with
   * it. Throws where a pooler may hand it to others.
   */
  alone?<T>(work: (session: SqlConnection) => Promise<T>): Promise<T>;
  /** LISTEN on a connection of its own; absent where the database has no such thing, `undefined` where a pooler stands between. */
  listen?(
    channel: string,
    onNotify: (payload: string) => void,
    onLost: (error: unknown) => void,
  ): Promise<{ close(): Promise<void> } | undefined>;
  /** Whether a pooler was noticed between this process and the database, once a connection was opened. */
  isPooled?(): boolean;
  close(): Promise<void>;
}
