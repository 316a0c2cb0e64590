type Rows = readonly Readonly<Record<string, unknown>>[];

/** SEAM: a session that changes the tables of an outbox: the one of a migrator, or one beside it. */
export interface SchemaSession {
  /** The migrator's transaction is open on it. */
  readonly isTransactionActive: boolean;
  /** @returns rows as objects */
  query(sql: string, values?: unknown[]): Promise<Rows>;
  connect(): Promise<unknown>;
  release(): Promise<void>;
}

/** One more session of the same user with the primary. It is not connected yet. */
export type OpenBeside = () => SchemaSession;
