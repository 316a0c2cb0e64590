import { systemClock, within } from '../../../time/clock.js';
import { OutboxError } from '../../../outbox.errors.js';
import { untilFree } from '../../schema/until-free.js';
import type { OpenBeside, SchemaSession } from '../../schema/session.js';

interface OnlineScript {
  /** What keeps others from doing the same: put before each statement. */
  readonly lock: string;
  readonly statements: readonly string[];
}

/** Milliseconds that a pool may take to give another connection. */
const CONNECT = 10_000;
/** A table is asked for so often, 100 ms at a time: a minute in all, with the pauses. */
const PATIENCE = {
  what: 'The upgrade of the outbox tables',
  lockTimeout: 100,
  tries: 240,
  isLockTimeout: (error: unknown) => ['55P03', '40P01'].includes(String((error as { code?: unknown }).code)),
} as const;

/**
 * Runs a script with a transaction for each statement, so that no lock is held longer than its statement. A migrator's own
 * transaction would hold the locks of the first until the last is through, and those of the application's other migrations.
 */
export async function runBeside(migrator: SchemaSession, script: OnlineScript, openBeside?: OpenBeside): Promise<void> {
  if (!migrator.isTransactionActive || openBeside === undefined) return inSession(migrator, script);
  const own = openBeside();
  const connecting = own.connect();
  if (!(await within(systemClock, CONNECT, connecting))) {
    void connecting.then(() => own.release()).catch(() => undefined);
    throw noConnection();
  }
  await inSession(own, script).finally(() => own.release());
}

/** A session of a pool goes back as it was. */
async function inSession(session: SchemaSession, { lock, statements }: OnlineScript): Promise<void> {
  const [was] = (await session.query(
    `select pg_catalog.current_setting('lock_timeout'), pg_catalog.current_setting('statement_timeout')`,
  )) as [[string, string]];
  try {
    await limit(session, `${PATIENCE.lockTimeout}ms`, '0');
    // Without parameters two statements are one transaction.
    for (const text of statements) await untilFree(PATIENCE, () => session.query(`${lock};\n${text}`));
  } finally {
    await limit(session, ...was).catch(() => undefined); // one that cannot be asked has ended
  }
}

const limit = (session: SchemaSession, lock: string, statement: string): Promise<unknown> =>
  session.query(
    `select pg_catalog.set_config('lock_timeout', $1, false), pg_catalog.set_config('statement_timeout', $2, false)`,
    [lock, statement],
  );

function noConnection(): OutboxError {
  return new OutboxError(
    'TIMEOUT',
    `The DataSource gave no second connection within ${CONNECT / 1000} s. The upgrade of the outbox tables has one of its own, so that it locks nothing until the end of the migrator's transaction.`,
    { hint: `Set poolSize of the DataSource to 2 or more, or migrationsTransactionMode to 'none'.` },
  );
}
