import { unsuitable } from '../unsuitable.js';

/** What differs between the servers, in one place. Everything else is SQL that both take. */
export interface MysqlCapabilities {
  readonly product: 'MariaDB' | 'MySQL';
  /** First release with all that is needed: json_table, SKIP LOCKED, expressions as defaults. */
  readonly since: readonly [major: number, minor: number, patch: number];
  /** Session setting by which the server cancels a statement. MySQL's covers reads only. */
  readonly statementTimeout: (milliseconds: number) => string;
  /** A `select` that the server cancels by itself. */
  readonly selectWithin: (milliseconds: number, rest: string) => string;
  /** Of the columns that `explain` answers, the one that names the index. */
  readonly explainKey: number;
  /** Whether `information_schema.disks` may be there, which tells how full the disk is. */
  readonly tellsDisks: boolean;
  /**
   * Session setting by which the server ends a session that does nothing in an open transaction: of a process that stood
   * still, which would lock its rows for as long as it does. MySQL's ends a session without a transaction, too.
   */
  readonly idleTransactionTimeout: (milliseconds: number) => string;
  /** Session settings that the other product lacks, and without which a statement may mean something else. */
  readonly meaning: readonly string[];
  /** What the server would end an idle session by, or one that idles in a transaction and has a limit of its own. */
  readonly idle: readonly string[];
  /** What begins and commits a transaction that may idle for so long. */
  readonly transaction: (milliseconds: number) => TransactionBounds;
  /** Session setting without which `information_schema` tells numbers of up to a day ago. */
  readonly freshStatistics?: string;
}

/** The statements that begin and commit a transaction. After a rollback the second one sets the session's limit back. */
export interface TransactionBounds {
  readonly begin: string;
  readonly commit: string;
}

/** The session has the limit already. */
export const PLAIN: TransactionBounds = { begin: 'start transaction', commit: 'commit' };

const waitTimeout = (milliseconds: number): string => `wait_timeout = ${Math.ceil(milliseconds / 1000)}`;

/** Seconds: the most that servers take on any system. */
const IDLE = 'wait_timeout = 2147483';

const MARIADB: MysqlCapabilities = {
  product: 'MariaDB',
  since: [10, 6, 0],
  statementTimeout: (milliseconds) => `max_statement_time = ${milliseconds / 1000}`,
  selectWithin: (milliseconds, rest) => `set statement max_statement_time = ${milliseconds / 1000} for select ${rest}`,
  explainKey: 5,
  tellsDisks: true,
  meaning: ['sql_if_exists = 0'], // with it a `create table if not exists` fails where the table exists
  idle: [IDLE, 'idle_readonly_transaction_timeout = 0', 'idle_write_transaction_timeout = 0'],
  idleTransactionTimeout: (milliseconds) => `idle_transaction_timeout = ${Math.ceil(milliseconds / 1000)}`,
  transaction: () => PLAIN,
};
const MYSQL: MysqlCapabilities = {
  product: 'MySQL',
  since: [8, 0, 15],
  statementTimeout: (milliseconds) => `max_execution_time = ${Math.ceil(milliseconds)}`,
  selectWithin: (milliseconds, rest) => `select /*+ max_execution_time(${Math.ceil(milliseconds)}) */ ${rest}`,
  explainKey: 6,
  tellsDisks: false,
  meaning: [],
  idle: [IDLE],
  idleTransactionTimeout: waitTimeout,
  // The limit holds in the transaction only, at the price of no round trip: with `autocommit` on again, MySQL commits.
  transaction: (milliseconds) => ({
    begin: `set session autocommit = 0, ${waitTimeout(milliseconds)}`,
    commit: `set session autocommit = 1, ${IDLE}`,
  }),
  freshStatistics: 'information_schema_stats_expiry = 0',
};

/**
 * Locks the rows of one table of a join, and not those of `json_table`: MySQL refuses to lock these (3569), and MariaDB knows no
 * `of`. Each server reads its own comments and skips the other's, so that one text does for both.
 * @param alias the table's name in the statement
 */
export const updateOf = (alias: string): string => `for update /*!80001 of ${alias} */`;
/** The same with a lock that others may share. MySQL takes no `of` behind `lock in share mode`, and MariaDB no `for share`. */
export const shareOf = (alias: string): string => `/*!80001 for share of ${alias} */ /*M! lock in share mode */`;

/** @param version what `select version()` answers: `10.11.19-MariaDB-…`, `8.0.36`. */
export function capabilitiesOf(version: string): MysqlCapabilities {
  const capabilities = /mariadb/i.test(version) ? MARIADB : MYSQL;
  const numbers = version.split('.', 3).map((part) => Number.parseInt(part, 10) || 0);
  const first = capabilities.since.findIndex((needed, i) => numbers[i] !== needed);
  if (first === -1 || (numbers[first] ?? 0) > (capabilities.since[first] as number)) return capabilities;
  const hint = `The outbox needs MariaDB ${MARIADB.since.join('.')} or MySQL ${MYSQL.since.join('.')}, or later.`;
  throw unsuitable(`The database is ${capabilities.product} ${version}.`, hint);
}
