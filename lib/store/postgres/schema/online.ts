import { pause, stopwatch, systemClock, within } from '../../../time/clock.js';
import { OutboxError } from '../../../outbox.errors.js';
import { literal } from '../../names.js';
import { untilFree } from '../../schema/until-free.js';
import { oidOf } from './catalog.js';
import type { OpenBeside, SchemaSession } from '../../schema/session.js';

/** An index that is built beside those who write into its table. Qualified, quoted names. */
export interface IndexBeside {
  readonly index: string;
  readonly build: string;
}
export interface OnlineScript {
  readonly indexes: readonly IndexBeside[];
  /** What keeps others from doing the same: put before each statement. */
  readonly lock: string;
  readonly statements: readonly string[];
}

/** Milliseconds that a pool may take to give another connection. */
const CONNECT = 10_000;
/** The build of an index waits so long for the end of transactions that are older. Nobody waits behind it. */
const OLDER = '120s';
/** Milliseconds until whoever waits for another session's build gives up. */
const OTHERS = 600_000;
/** Milliseconds between two looks at it. */
const LOOK = 200;
/** A table is asked for so often, 100 ms at a time: a minute in all, with the pauses. */
const PATIENCE = {
  what: 'The upgrade of the outbox tables',
  lockTimeout: 100,
  tries: 240,
  isLockTimeout: (error: unknown) => ['55P03', '40P01'].includes(String(codeOf(error))),
} as const;
/** `deadlock_detected`, `duplicate_table`, `unique_violation`: `database.setup: 'create'` builds the same. */
const BUILT_BESIDE: ReadonlySet<unknown> = new Set(['40P01', '42P07', '23505']);
const ATTEMPTS = 3;

/**
 * Runs a script with a transaction for each statement, so that no lock is held longer than its statement. A migrator's own
 * transaction would hold the locks of the first until the last is through, and those of the application's other migrations.
 */
export async function runBeside(migrator: SchemaSession, openBeside: OpenBeside, script: OnlineScript): Promise<void> {
  if (!migrator.isTransactionActive) return inSession(migrator, script);
  const own = openBeside();
  const connecting = own.connect();
  if (!(await within(systemClock, CONNECT, connecting))) {
    void connecting.then(() => own.release()).catch(() => undefined);
    throw noConnection();
  }
  await inSession(own, script).finally(() => own.release());
}

/** A session of a pool goes back as it was. */
async function inSession(session: SchemaSession, { indexes, lock, statements }: OnlineScript): Promise<void> {
  const [was] = (await session.query(
    `select pg_catalog.current_setting('lock_timeout') as l, pg_catalog.current_setting('statement_timeout') as s`,
  )) as unknown as [{ l: string; s: string }];
  try {
    await limit(session, OLDER, '0');
    for (const index of indexes) await inTurn(session, index);
    await limit(session, `${PATIENCE.lockTimeout}ms`, '0');
    // Without parameters two statements are one transaction.
    for (const text of statements) await untilFree(PATIENCE, () => session.query(`${lock};\n${text}`));
  } finally {
    await limit(session, was.l, was.s).catch(() => undefined); // one that cannot be asked has ended
  }
}

const limit = (session: SchemaSession, lock: string, statement: string): Promise<unknown> =>
  session.query(
    `select pg_catalog.set_config('lock_timeout', $1, false), pg_catalog.set_config('statement_timeout', $2, false)`,
    [lock, statement],
  );

/**
 * One session builds at a time: another one would drop what is half built. A turn is tried again and again: the build would wait
 * for a session that waits for it in one statement.
 */
async function inTurn(session: SchemaSession, beside: IndexBeside): Promise<void> {
  const turn = `pg_catalog.hashtext(${literal(beside.index)})`;
  const elapsed = stopwatch(systemClock);
  while (!(await asked(session, `pg_catalog.pg_try_advisory_lock(${turn})`))) {
    if (elapsed() > OTHERS) throw stillBuilding(beside);
    await pause(systemClock, LOOK);
  }
  try {
    await build(session, beside);
  } finally {
    await asked(session, `pg_catalog.pg_advisory_unlock(${turn})`).catch(() => undefined); // one that has ended holds none
  }
}

/** One that a build left behind when it was stopped is not used by any query, and made again. */
async function build(session: SchemaSession, { index, build }: IndexBeside): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const [found] = await session.query(
      `select i.indisvalid as valid from pg_catalog.pg_index i where i.indexrelid = ${oidOf(index)}`,
    );
    if (found?.['valid'] === true) return;
    if (found !== undefined) await session.query(`drop index concurrently if exists ${index}`);
    await session.query(build).catch((error: unknown) => {
      if (!BUILT_BESIDE.has(codeOf(error)) || attempt === ATTEMPTS) throw error;
    });
  }
}

async function asked(session: SchemaSession, call: string): Promise<boolean> {
  const [answer] = await session.query(`select ${call} as yes`);
  return answer?.['yes'] === true;
}

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;

function noConnection(): OutboxError {
  return new OutboxError(
    'TIMEOUT',
    `The DataSource gave no second connection within ${CONNECT / 1000} s. The upgrade of the outbox tables has one of its own, so that it locks nothing until the end of the migrator's transaction.`,
    { hint: `Set poolSize of the DataSource to 2 or more, or migrationsTransactionMode to 'none'.` },
  );
}

function stillBuilding({ index }: IndexBeside): OutboxError {
  return new OutboxError(
    'TIMEOUT',
    `Another session has been building the index ${index} for ${OTHERS / 60_000} min, or holds the advisory lock of that.`,
    { hint: "Start again once it has finished. To find it: select * from pg_locks where locktype = 'advisory'." },
  );
}
