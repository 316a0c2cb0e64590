import { systemClock, within } from '../../../time/clock.js';
import { OutboxError } from '../../../outbox.errors.js';
import { literal, type TableNames } from '../../names.js';
import { oidOf } from './catalog.js';
import type { OpenBeside, SchemaSession } from '../../schema-session.js';

/** An index that is built beside those who write into its table. Qualified, quoted names. */
export interface IndexBeside {
  readonly index: string;
  readonly table: string;
  readonly build: string;
}
/** Milliseconds that a pool may take to give another connection. */
const CONNECT = 10_000;
/** Seconds that the build of an index waits for the end of transactions that are older. Nobody waits behind it. */
const OLDER = 120;
/**
 * The same of the first try. Another migrator may wait for this build in a transaction that read at that moment, and the build
 * waits for the end of that transaction: both stand still. A second try does not wait for it.
 */
const FIRST = 2;
const LOCK_NOT_AVAILABLE = '55P03';
/** Seconds between two looks at an index that another session builds, or is about to build. */
const LOOK = 0.2;
/** Looks at a turn that another session has while nobody builds. Then it is built without: a pooler may keep such a session. */
const LOOKS = 50;
/** `deadlock_detected`, `duplicate_table`, `unique_violation`: somebody without a turn builds the same. */
const BUILT_BESIDE: ReadonlySet<unknown> = new Set(['40P01', '42P07', '23505']);

/**
 * Runs a script with a transaction for each statement, so that no lock is held longer than its statement. A migrator's own
 * transaction would hold the locks of the first until the last is through, and those of the application's other migrations.
 * @param script begins with what keeps others from doing the same
 */
export async function runBeside(
  migrator: SchemaSession,
  openBeside: OpenBeside,
  indexes: readonly IndexBeside[],
  script: readonly string[],
): Promise<void> {
  if (!migrator.isTransactionActive) return inSession(migrator, indexes, script);
  const own = openBeside();
  const connecting = own.connect();
  if (!(await within(systemClock, CONNECT, connecting))) {
    void connecting.then(() => own.release()).catch(() => undefined);
    throw noConnection();
  }
  await inSession(own, indexes, script).finally(() => own.release());
}

/** Of the tables that are there and committed, or made by the migrator. */
export async function storedVersion(migrator: SchemaSession, { meta }: TableNames): Promise<number | undefined> {
  const [table] = await migrator.query(`select pg_catalog.to_regclass(${literal(meta)}) is not null as there`);
  if (!table?.['there']) return undefined;
  const [row] = await migrator.query(`select value from ${meta} where name = 'version'`);
  return row === undefined ? undefined : Number(row['value']);
}

/** A session of a pool goes back as it was. */
async function inSession(
  session: SchemaSession,
  indexes: readonly IndexBeside[],
  script: readonly string[],
): Promise<void> {
  const [was] = (await session.query(
    `select pg_catalog.current_setting('lock_timeout') as l, pg_catalog.current_setting('statement_timeout') as s`,
  )) as unknown as [{ l: string; s: string }];
  await limit(session, `${OLDER}s`, '0');
  try {
    for (const index of indexes) await inTurn(session, index);
    const [lock, ...statements] = script;
    for (const text of statements) await session.query(`${lock};\n${text}`); // without parameters: one transaction
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
 * One session builds at a time: another one, whose look is old, would drop what was just built. A turn is tried again and again:
 * a session that waited for it in one statement would keep the build waiting.
 */
async function inTurn(session: SchemaSession, index: IndexBeside): Promise<void> {
  const turn = `pg_catalog.hashtext(${literal(index.index)})`;
  const ask = async (call: string): Promise<boolean> => {
    const [answer] = await session.query(`select pg_catalog.${call}(${turn}) as ours`);
    return answer?.['ours'] === true;
  };
  let isOurs = false;
  try {
    for (let looks = 0; looks < LOOKS; looks += 1) {
      if (await isBuilt(session, index)) return;
      isOurs = await ask('pg_try_advisory_lock');
      if (isOurs) break;
      if (await isBeingBuilt(session, index.table)) looks = 0;
      await session.query(`select pg_catalog.pg_sleep(${LOOK})`);
    }
    await build(session, index);
  } finally {
    if (isOurs) await ask('pg_advisory_unlock').catch(() => undefined); // a session that has ended holds none
  }
}

/** @returns `undefined`: it is not there; `false`: not to its end */
async function isBuilt(session: SchemaSession, { index }: IndexBeside): Promise<boolean | undefined> {
  const [found] = (await session.query(
    `select i.indisvalid as valid from pg_catalog.pg_index i where i.indexrelid = ${oidOf(index)}`,
  )) as readonly { valid: boolean }[];
  return found?.valid;
}

/** One that a build left behind when it was stopped is not used by any query, and made again. */
async function build(session: SchemaSession, beside: IndexBeside): Promise<void> {
  let isFirst = true;
  for (;;) {
    const built = await isBuilt(session, beside);
    if (built === true) return;
    if (built === undefined) {
      await tryToBuild(session, beside, isFirst);
      isFirst = false;
    } else if (await isBeingBuilt(session, beside.table)) await session.query(`select pg_catalog.pg_sleep(${LOOK})`);
    else await session.query(`drop index concurrently if exists ${beside.index}`);
  }
}

async function tryToBuild(session: SchemaSession, beside: IndexBeside, isFirst: boolean): Promise<void> {
  await limit(session, `${isFirst ? FIRST : OLDER}s`, '0');
  await session.query(beside.build).catch((error: unknown) => {
    const { code } = error as { code?: unknown };
    if (!BUILT_BESIDE.has(code) && !(isFirst && code === LOCK_NOT_AVAILABLE)) throw error;
  });
  await limit(session, `${OLDER}s`, '0');
}

/** A vacuum has the same lock: it ends as well. */
async function isBeingBuilt(session: SchemaSession, table: string): Promise<boolean> {
  const held = await session.query(
    `select 1 from pg_catalog.pg_locks l where l.relation = ${oidOf(table)}
     and l.mode = 'ShareUpdateExclusiveLock' and l.database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())`,
  );
  return held.length > 0;
}

function noConnection(): OutboxError {
  return new OutboxError(
    'TIMEOUT',
    `The DataSource gave no second connection within ${CONNECT / 1000} s. The upgrade of the outbox tables has one of its own, so that it locks nothing until the end of the migrator's transaction.`,
    { hint: `Set poolSize of the DataSource to 2 or more, or migrationsTransactionMode to 'none'.` },
  );
}
