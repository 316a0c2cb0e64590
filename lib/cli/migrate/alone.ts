import { createHash } from 'node:crypto';
import { pause, stopwatch, systemClock } from '../../time/clock.js';
import type { OwnSession } from '../../data-layers/tables/index.js';
import type { Tables } from './tables.js';

/** Milliseconds between two questions. */
const STEP = 200;

/**
 * Runs work while no other command does the same to these tables: so each migration is written down, and told of, by the one that
 * ran it. It asks for `wait` milliseconds and then goes on without, as the migrations themselves are safe beside each other.
 * @param waiting is told of the first time that another one has them
 */
export async function alone<T>(
  session: OwnSession,
  tables: Pick<Tables, 'db' | 'steps'>,
  { wait, waiting }: { wait: number; waiting: () => void },
  work: () => Promise<T>,
): Promise<T> {
  const [take, free] = tables.db.dialect === 'postgres' ? POSTGRES : MYSQL;
  const name = nameOf(tables);
  const ask = async (sql: string): Promise<unknown> => (await session.query(sql.replace('$', name)))[0]?.[0];
  const elapsed = stopwatch(systemClock);
  let isMine = await isTaken(ask, take);
  if (!isMine) waiting();
  while (!isMine && elapsed() < wait) {
    await pause(systemClock, STEP);
    isMine = await isTaken(ask, take);
  }
  try {
    return await work();
  } finally {
    // One that cannot be asked has ended, and its lock with it.
    if (isMine) await ask(free).catch(() => undefined);
  }
}

const isTaken = async (ask: (sql: string) => Promise<unknown>, take: string): Promise<boolean> =>
  Number(await ask(take)) === 1;

const POSTGRES = ['select pg_catalog.pg_try_advisory_lock($)::int', 'select pg_catalog.pg_advisory_unlock($)'] as const;
/** These locks are one per server. */
const MYSQL = [
  `select get_lock(sha1(concat(database(), '$')), 0)`,
  `select release_lock(sha1(concat(database(), '$')))`,
] as const;

/** Of the tables: prefix and schema are in the names of their migrations. */
function nameOf({ db, steps }: Pick<Tables, 'db' | 'steps'>): string {
  const names = steps.map(({ name }) => name).join();
  const hash = createHash('sha256').update(`nestjs-outbox migrate ${names}`).digest();
  return db.dialect === 'postgres' ? String(hash.readBigInt64BE()) : hash.toString('hex');
}
