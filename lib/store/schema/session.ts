/** SEAM: a session that changes the tables of an outbox: the one of a migrator, or one of ours. */
export interface SchemaSession {
  /** The migrator's transaction is open on it. */
  readonly isTransactionActive: boolean;
  /** @returns rows as arrays, columns in the statement's order; values stand as the server writes them, `$1` or `?` */
  query(sql: string, values?: unknown[]): Promise<readonly (readonly unknown[])[]>;
}

/** One more session of the same user with the primary. It is not connected yet. */
export type OpenBeside = () => SchemaSession & {
  connect(): Promise<unknown>;
  release(): Promise<void>;
};
