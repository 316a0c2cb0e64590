import { hash } from 'node:crypto';
import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import { OutboxError, OutboxTransactionConflictError } from '../outbox.errors.js';
import type { SqlExecutor } from '../store/executor.js';
import { statement, type Sql } from '../store/sql.js';
import type { InboxTables } from './tables.js';

/** What is to be handled once. */
export interface Claim {
  readonly consumer: string;
  readonly id: string;
  /** Only if nothing later of its key was handled. */
  readonly latest?: { readonly key: string; readonly place: string };
  /** Not while another transaction has it. */
  readonly refuse: boolean;
}
/**
 * Whether this transaction is the one that handles it: it has written that down.
 * @throws OutboxError `IN_PROGRESS`
 * @throws OutboxTransactionConflictError on MySQL and MariaDB: the transaction is of no use any more
 */
export type TakeClaim = (db: SqlExecutor, session: SqlExecutor, claim: Claim) => Promise<boolean>;

export function takeClaims(dialect: OutboxDialect, tables: InboxTables): TakeClaim {
  return dialect === 'postgres' ? onPostgres(tables) : onMysql(tables);
}

function onPostgres({ inbox, latest }: InboxTables): TakeClaim {
  const once = `on conflict (consumer, message_id) do update set duplicates = it.duplicates + 1 returning it.duplicates = 0`;
  const ifLater = `on conflict (consumer, message_key) do update set place = excluded.place, seen_at = clock_timestamp()
    where it.place < excluded.place returning true`;
  const turn = `with turn as materialized (select pg_try_advisory_xact_lock(hashtextextended(?, 0)) as mine)`;
  // Inboxes with one pool prepare each its own; PostgreSQL takes 63 characters.
  const named = (name: string): string => `outbox_${name}_${hash('sha1', inbox)}`;
  const sql = {
    once: statement(named('once'), `insert into ${inbox} as it (consumer, message_id) values (?, ?) ${once}`),
    latest: statement(
      named('latest'),
      `insert into ${latest} as it (consumer, message_key, place) values (?, ?, ?) ${ifLater}`,
    ),
    turn: statement(named('turn'), `${turn} select mine from turn`),
  };
  const says = async (db: SqlExecutor, asked: Sql): Promise<boolean> =>
    [true, 't'].includes((await db.run(asked)).rows[0]?.[0] as string);
  return async (db, _session, claim) => {
    const { consumer, id, refuse, latest: last } = claim;
    if (refuse && !(await says(db, sql.turn.bind(`${inbox} ${consumer} ${last?.key ?? id}`)))) throw inProgress(claim);
    return says(db, last === undefined ? sql.once.bind(consumer, id) : sql.latest.bind(consumer, last.key, last.place));
  };
}

function onMysql({ inbox, latest }: InboxTables): TakeClaim {
  const sql = {
    // Of a row that is there it changes something: whatever the client's flags, the server counts two rows then.
    once: statement(
      undefined,
      `insert into ${inbox} (consumer, message_id, received_at) values (?, convert(? using utf8mb4), utc_timestamp(6))
      on duplicate key update duplicates = duplicates + 1`,
    ),
    // Locks the row; a SELECT … FOR UPDATE of one that is not there would lock its neighbours' place.
    seen: statement(
      undefined,
      `insert into ${latest} (consumer, message_key, seen_at) values (?, ?, utc_timestamp(6))
      on duplicate key update seen_at = utc_timestamp(6)`,
    ),
    latest: statement(
      undefined,
      `update ${latest} set place = ? where consumer = ? and message_key = ? and (place is null or place < ?)`,
    ),
  };
  const take = async (db: SqlExecutor, { consumer, id, latest: last }: Claim): Promise<boolean> => {
    // Bytes: the application's connection may have a character set in which two ids are one.
    if (last === undefined) return (await db.run(sql.once.bind(consumer, Buffer.from(id)))).affected === 1;
    const key = Buffer.from(last.key);
    await db.run(sql.seen.bind(consumer, key));
    return (await db.run(sql.latest.bind(last.place, consumer, key, last.place))).affected === 1;
  };
  const told = (claim: Claim, error: unknown): unknown => {
    const { errno } = error as { errno?: unknown };
    if (errno === LOCK_WAIT_TIMEOUT) return inProgress(claim, error);
    return CONFLICTS.has(errno) ? conflict(claim, error) : error;
  };
  return async (db, session, claim) => {
    if (claim.refuse) await db.run(IMPATIENT);
    try {
      const answer = await take(db, claim);
      if (claim.refuse) await session.run(PATIENT);
      return answer;
    } catch (error) {
      // Of a connection that is lost the first error says more; any other goes back to its pool.
      if (claim.refuse) await session.run(PATIENT).catch(() => undefined);
      throw told(claim, error);
    }
  };
}

const IMPATIENT = statement(
  undefined,
  'set @outbox_lock_wait = @@session.innodb_lock_wait_timeout, session innodb_lock_wait_timeout = 1',
).bind();
const PATIENT = statement(undefined, 'set session innodb_lock_wait_timeout = @outbox_lock_wait').bind();
/** MySQL's `ER_LOCK_WAIT_TIMEOUT`. */
const LOCK_WAIT_TIMEOUT = 1205;
/** A deadlock, which several are on InnoDB that wait for a first, when it rolls back; a row that is newer than the snapshot. */
const CONFLICTS: ReadonlySet<unknown> = new Set([1213, 1020]);

const inProgress = ({ id, consumer }: Claim, cause?: unknown): OutboxError =>
  new OutboxError('IN_PROGRESS', `Message ${id} is being handled for consumer '${consumer}' in another transaction.`, {
    hint: 'Let the broker deliver it again later.',
    cause,
  });

const conflict = ({ id, consumer }: Claim, cause: unknown): OutboxError =>
  new OutboxTransactionConflictError(
    `Other deliveries of message ${id} for consumer '${consumer}' were in the way: nothing was done.`,
    { hint: 'Roll back, and run the whole transaction again, or let the broker deliver the message again.', cause },
  );
