/** What mysql2 leaves on an error; `errno` and `sqlState` are the server's. */
export interface MysqlError extends Error {
  code?: string;
  errno?: number;
  sqlState?: string;
  fatal?: boolean;
}

export const LOCK_WAIT_TIMEOUT = 1205;
/** MariaDB with `innodb_snapshot_isolation`: a row has changed since the snapshot. */
export const SNAPSHOT_TOO_OLD = 1020;
