/**
 * Carries one statement to the database and its answer back. `effect` is the statement: it is run once and at once, or,
 * when the request is lost, never; the promise is what the caller hears.
 */
export type Wire = <T>(operation: string, effect: () => T) => Promise<T>;
export const AT_ONCE: Wire = (_operation, effect) => Promise.resolve().then(effect);

export interface MemoryStoreOptions {
  readonly wire?: Wire;
  /** Places per bucket that one sweep returns. */
  readonly sweepPage?: number;
  /** What it says of open transactions: snapshots, as PostgreSQL; or the answers to probes, as MySQL and MariaDB. */
  readonly floor?: 'snapshot' | 'probe';
  /** Numbers of a bucket at which one read with a limit gets, where reads return snapshots. */
  readonly looks?: number;
}
