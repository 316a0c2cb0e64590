/** Milliseconds: a statement that takes longer than this is cancelled. The shortest lease is as long. */
export const STATEMENT_TIMEOUT = 10_000;

/**
 * What an error of a read speaks of: the database or the way to it, the row that was asked for, or a row that is damaged
 * where it is stored. A damaged one cannot be moved to another table either.
 */
export function subjectOf(error: unknown): 'database' | 'row' | 'damage' {
  const { errno, fatal } = (error ?? {}) as Record<string, unknown>;
  const state = stateOf(error);
  if (fatal === true || typeof state !== 'string' || !SQLSTATE.test(state)) return 'database';
  if (PG_DAMAGE.has(state) || MYSQL_DAMAGE.has(errno)) return 'damage';
  return OF_THE_DATABASE.test(state) || MYSQL_DATABASE.has(errno) ? 'database' : 'row';
}

/** Whether the server answers, and refuses what it was asked: the right is missing, a table or a column. */
export const isRefusal = (error: unknown): boolean =>
  String(stateOf(error)).startsWith('42') && !MYSQL_DATABASE.has((error as { errno?: unknown }).errno);

function stateOf(error: unknown): unknown {
  const { code, sqlState } = (error ?? {}) as Record<string, unknown>;
  return typeof sqlState === 'string' ? sqlState : code;
}

/** Whether a read may have met a row that is damaged. XX000: lengths that make no sense. */
export function isDamage(error: unknown): boolean {
  return subjectOf(error) === 'damage' || (error as { code?: unknown } | null)?.code === 'XX000';
}

/**
 * Whether an error of a write of one row speaks of that row: the next one may well be written. One that took too long says
 * nothing of the kind.
 */
export function isOfTheRow(error: unknown): boolean {
  return subjectOf(error) !== 'database' && !tookTooLong(error);
}

/** Whether the server ended a statement for its time. */
export function tookTooLong(error: unknown): boolean {
  const { code, errno } = (error ?? {}) as Record<string, unknown>;
  return TOOK_TOO_LONG.has(code) || TOOK_TOO_LONG.has(errno);
}

/** Whether a write ended for its time, or waited for a lock as long as it may: of one row, that may be for what holds this row. */
export function waitedTooLong(error: unknown): boolean {
  const { code, errno } = (error ?? {}) as Record<string, unknown>;
  return tookTooLong(error) || LOCK_WAIT.has(code) || LOCK_WAIT.has(errno);
}

/** `lock_not_available`, `ER_LOCK_WAIT_TIMEOUT`. */
const LOCK_WAIT: ReadonlySet<unknown> = new Set(['55P03', 1205]);
/** `query_canceled`; MariaDB's and MySQL's limits of a statement's time. */
const TOOK_TOO_LONG: ReadonlySet<unknown> = new Set(['57014', 1969, 3024]);

/** Five characters, and none of Node's codes: `EPIPE`. */
const SQLSTATE = /^(?!E)[0-9A-Z]{5}$/;
/** Connections, read-only and aborted transactions, log-in, rights, resources, locks, shutdown. */
const OF_THE_DATABASE = /^(08|25|28|40|42|53|55|57P)/;
/** `data_corrupted`, `index_corrupted`; a file that cannot be read. */
const PG_DAMAGE: ReadonlySet<unknown> = new Set(['XX001', 'XX002', '58030']);
/** An error of the storage engine, `ER_NOT_KEYFILE`, a crashed table, a corrupted index. */
const MYSQL_DAMAGE: ReadonlySet<unknown> = new Set([1030, 1034, 1194, 1712]);
/** What MySQL tells with a state that says nothing: memory, hosts, connections of a user, locks, read-only, somebody who ends statements. */
const MYSQL_DATABASE: ReadonlySet<unknown> = new Set([
  1021, 1037, 1038, 1041, 1114, 1129, 1130, 1203, 1205, 1226, 1290, 1317, 1792, 1836, 1927,
]);
