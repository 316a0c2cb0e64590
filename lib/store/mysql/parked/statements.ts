import type { TableNames } from '../../names.js';
import { statement, type Statement } from '../../sql.js';
import { updateOf } from '../capabilities.js';
import { DUE_AT, failures, messageFrom, parkedFrom } from '../columns.js';
import { DEAD, WAITING } from '../../parked-state.js';
import { jsonTable, lookUp, MEDIUMTEXT, PARKED_IDS, TEXT } from '../json-rows.js';
import { sized, times } from '../statements.js';

const NOW = 'utc_timestamp(6)';
/** Being sent: taken in the epoch that the lease has now, and the lease lasts. */
const SENDING = `(p.sending_epoch is not null and p.sending_epoch = l.epoch and l.expires_at > ${NOW})`;

export function parkedStatements({ parked, leases }: TableNames, errorHistory: number) {
  const joined = `${leases} l straight_join ${parked} p`;
  const onPlace = 'p.transport = l.transport and p.bucket = l.bucket';
  const minimum = (more: string): string =>
    `(select min(due_at) from ${parked} force index (due) where transport = ? and bucket = ?${more}) as due`;
  // The lease is one row by its key, read once; the order is the index's.
  const dueBranch = `(select p.parked_id, p.bucket, p.\`key\`, p.state, p.blocking, p.due_at, p.seq
    from ${joined} force index (due) on ${onPlace}
    where l.transport = ? and l.bucket = ? and p.due_at <= ${NOW} and not ${SENDING} order by p.due_at, p.seq limit ?)`;
  return {
    ...hastenStatements(parked),
    any: statement('any parked', `select 1 from ${parked} force index (due) where transport = ? limit 1`),
    earliest: sized((n) => `select ${NOW}, ${times(n, minimum(''), ', ')}`),
    later: sized((n) => `select ${times(n, minimum(` and due_at > ${NOW}`), ', ')}`),
    due: sized(
      (
        n,
      ) => `select d.parked_id, d.bucket, d.\`key\`, d.state, d.blocking from (${times(n, dueBranch, ' union all ')}) d
      order by d.due_at, d.seq, d.parked_id limit ?`,
    ),
    repark: reparkStatement(parked, true, errorHistory),
    reparkLocked: reparkStatement(parked, false, errorHistory),
    // A scalar subquery: as a join, or `exists`, it would read every row behind a failing key.
    blockedAmong: statement(
      'blocked among',
      `select k.n, (select 1 from ${parked} p force index (by_key)
        where p.transport = ? and p.bucket = k.b and p.blocking = 1 and p.\`key\` = unhex(k.h) limit 1) as blocked
      from ${jsonTable({ n: 'int', b: 'smallint', h: 'varchar(510)' })}`,
    ),
    // A global order has one bucket.
    anyBlocking: statement(
      'any blocking',
      `(select 1 from ${parked} p force index (by_key) where p.transport = ? and p.bucket = 0 and p.blocking = 1 limit 1)
      union all (select 1 from ${parked} p force index (due) where p.transport = ? and p.bucket = 0 and p.due_at <= ${NOW} limit 1)`,
    ),
    unannounced: unannounced(parked),
    announced: announced(parked),
  };
}

function hastenStatements(parked: string) {
  const byId = `${lookUp(PARKED_IDS, `${parked} p`)} on p.parked_id = k.p`;
  return {
    // Every index ends with the primary key, and of rows that are not dead all columns before it are the same.
    waiting: statement(
      'waiting',
      `select p.parked_id, p.bucket, p.topic, p.attempts = 0 and p.due_at > ${NOW} from ${parked} p force index (by_state)
      where p.transport = ? and p.state = ${WAITING} and p.announced = 0 and p.died_at is null and p.parked_id > ?
      order by p.parked_id limit ?`,
    ),
    lock: statement('lock to hasten', `select p.parked_id from ${byId} ${updateOf('p')} skip locked`),
    hasten: statement(
      'hasten',
      `update ${byId} set p.due_at = ${NOW} where p.state = ${WAITING} and p.attempts = 0 and p.due_at > ${NOW}`,
    ),
  };
}

/** Fenced: rows that this epoch is sending, in the life that they were sent in. Otherwise: rows that this transaction has locked. */
function reparkStatement(parked: string, fenced: boolean, errorHistory: number): Statement {
  const list = jsonTable({
    p: 'bigint unsigned',
    e: 'bigint unsigned',
    state: 'tinyint',
    blocking: 'tinyint',
    attempts: 'int',
    sent: 'int',
    delay: 'bigint',
    error: TEXT,
    progress: MEDIUMTEXT,
    changed: 'tinyint',
  });
  return statement(
    fenced ? 'repark' : 'repark locked',
    `update ${lookUp(list, `${parked} p`)} on p.parked_id = k.p
      set p.state = k.state, p.blocking = k.blocking, p.attempts = k.attempts,
        p.due_at = ${DUE_AT}, p.attempted_at = if(k.error is null, p.attempted_at, ${NOW}),
        p.errors = ${failures(errorHistory, 'p.errors')}, p.last_error = coalesce(k.error, p.last_error),
        p.progress = if(k.changed = 1, k.progress, p.progress), p.sending_epoch = null,
        p.died_at = if(k.state = ${DEAD}, ${NOW}, null), p.announced = 0
      ${fenced ? 'where p.sending_epoch = k.e and p.attempts = k.sent' : ''}`,
  );
}

/** In the order of the index: what dies later comes last. Rows that one statement wrote died at one time. */
function unannounced(parked: string): Statement {
  return statement(
    'unannounced',
    `select ${messageFrom('p')}, ${parkedFrom('p')}, p.transport, p.last_error, p.died_at
    from ${parked} p force index (by_state)
    where p.transport = ? and p.state = ${DEAD} and p.announced = 0
      and (p.died_at > ? or p.died_at = ? and p.parked_id > ?)
    order by p.died_at, p.parked_id limit ?`,
  );
}

function announced(parked: string): Statement {
  const list = jsonTable({ p: 'bigint unsigned', d: 'datetime(6)' });
  return statement(
    'announced',
    `update ${lookUp(list, `${parked} p`)} on p.parked_id = k.p
      set p.announced = 1 where p.state = ${DEAD} and p.died_at = k.d`,
  );
}
