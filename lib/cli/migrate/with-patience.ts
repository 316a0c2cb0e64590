import type { OwnSession } from '../../data-layers/tables/index.js';
import { pause, stopwatch, systemClock } from '../../time/clock.js';
import { CliError, EXIT } from '../exit-code.js';

/** Milliseconds for which a table is asked for at a time: whoever comes meanwhile waits behind. */
const PATIENCE = 100;
/** Milliseconds between two tries, at most. */
const PAUSE = 500;
/** `lock_not_available`, `deadlock_detected`; the same of MariaDB and MySQL. */
const LOCKED: ReadonlySet<unknown> = new Set(['55P03', '40P01', 'ER_LOCK_WAIT_TIMEOUT', 'ER_LOCK_DEADLOCK']);

/**
 * Changes tables that others use: no request for a lock waits for long, and the change is made again until it has them.
 * @param waiting is told of the first try that found the tables locked
 * @throws CliError exit code 1: they were locked for `wait` milliseconds
 */
export async function withPatience<T>(
  session: OwnSession,
  isPostgres: boolean,
  { wait, waiting }: { wait: number; waiting: () => void },
  change: () => Promise<T>,
): Promise<T> {
  // On MariaDB and MySQL the migration itself does it: there a session counts in seconds.
  if (isPostgres) await session.query(`select pg_catalog.set_config('lock_timeout', '${PATIENCE}ms', false)`);
  const elapsed = stopwatch(systemClock);
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await change();
    } catch (error) {
      const { code } = Object(error) as { code?: unknown };
      if (!LOCKED.has(code)) throw error;
      if (isFirst) waiting();
      if (elapsed() >= wait) throw neverFree(wait, error);
    }
    await pause(systemClock, PAUSE * Math.random());
  }
}

function neverFree(wait: number, cause: unknown): CliError {
  return new CliError(
    EXIT.failed,
    `For ${Math.round(wait / 1000)} s transactions of others had the tables. End those that stay open, and run it again: what is done is not done twice.`,
    { cause },
  );
}
