import type { SchemaSession } from '../../schema/session.js';
import { errnoOf } from '../../retry.js';
import { untilFree } from '../../schema/until-free.js';
import { LOCK_WAIT_TIMEOUT } from '../errors.js';

/** The servers count in seconds: a change asks for its table for one at a time, and whoever comes meanwhile waits behind. */
const LOCK_WAIT = 1;
/** A minute in all, with the pauses. */
const PATIENCE = {
  what: 'The migration of the outbox tables',
  lockTimeout: LOCK_WAIT * 1_000,
  tries: 24,
  isLockTimeout: (error: unknown) => errnoOf(error) === LOCK_WAIT_TIMEOUT,
};

/** Changes tables that others use, in the session of the migrator. */
export async function patiently(
  migrator: SchemaSession,
  work: (run: (sql: string) => Promise<unknown>) => Promise<void>,
): Promise<void> {
  const [session] = await migrator.query('select @@session.lock_wait_timeout');
  try {
    await migrator.query(`set session lock_wait_timeout = ${LOCK_WAIT}`);
    await work((sql) => untilFree(PATIENCE, () => migrator.query(sql)));
  } finally {
    await migrator.query(`set session lock_wait_timeout = ${Number(session?.[0])}`).catch(() => undefined);
  }
}
