import { systemClock, within } from '../../../time/clock.js';
import type { OpenBeside, SchemaSession } from '../../schema/session.js';
import { errnoOf } from '../../retry.js';
import { untilFree } from '../../schema/until-free.js';

/** Seconds for which a table is asked for at a time: the least that the servers take. */
const PATIENCE = 1;
/** Milliseconds between two looks at a change: one that waits for its table at both is ended. Whoever comes meanwhile waits behind it. */
const LOOK = 50;
/** Milliseconds for which a table is asked for in all, with the pauses. */
const TRIED = 60_000;
/** Milliseconds that a pool may take to give another connection. */
const CONNECT = 2_000;
/** `ER_LOCK_WAIT_TIMEOUT`, `ER_QUERY_INTERRUPTED`. */
const NOT_FREE: readonly unknown[] = [1205, 1317];

type Run = (sql: string) => Promise<unknown>;

/**
 * Changes tables that others use. A change that waits for the end of a transaction stops all that come after it: it is ended
 * and made again. A server that counts in seconds is helped by a second session.
 */
export async function patiently(
  migrator: SchemaSession,
  openBeside: OpenBeside,
  work: (run: Run) => Promise<void>,
): Promise<void> {
  const [session] = await migrator.query('select connection_id() as id, @@session.lock_wait_timeout as patience');
  const watch = await openWatch(openBeside, Number(session?.['id']));
  const lockTimeout = watch === undefined ? PATIENCE * 1_000 : 2 * LOOK;
  const patience = {
    what: 'The migration of the outbox tables',
    lockTimeout,
    tries: TRIED / (2.5 * lockTimeout),
    isLockTimeout: (error: unknown) => NOT_FREE.includes(errnoOf(error)),
  };
  try {
    await migrator.query(`set session lock_wait_timeout = ${PATIENCE}`);
    await work((sql) => untilFree(patience, () => watched(migrator.query(sql), watch)));
  } finally {
    await watch?.close();
    await migrator.query(`set session lock_wait_timeout = ${Number(session?.['patience'])}`).catch(() => undefined);
  }
}

interface Watch {
  waits(): Promise<boolean>;
  end(): Promise<void>;
  close(): Promise<void>;
}

async function watched(change: Promise<unknown>, watch: Watch | undefined): Promise<void> {
  const ended = change.then(
    () => undefined,
    () => undefined,
  );
  let waited = false;
  while (watch !== undefined && !(await within(systemClock, LOOK, ended))) {
    const waits = await watch.waits();
    if (waited && waits) await watch.end();
    waited = waits;
  }
  await change;
}

/** Another session of the same user may look at this one, and end its statements. Without one the server's second holds. */
async function openWatch(openBeside: OpenBeside, id: number): Promise<Watch | undefined> {
  const session = openBeside();
  const connecting = session.connect();
  if (!(await within(systemClock, CONNECT, connecting).catch(() => false))) {
    void connecting.then(() => session.release()).catch(() => undefined);
    return undefined;
  }
  const quietly = (sql: string): Promise<readonly unknown[]> => session.query(sql).catch(() => []);
  const waiting = `select 1 from information_schema.processlist where id = ${id} and state = 'Waiting for table metadata lock'`;
  return {
    waits: async () => (await quietly(waiting)).length > 0,
    end: async () => void (await quietly(`kill query ${id}`)),
    close: () => session.release(),
  };
}
