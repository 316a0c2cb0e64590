import type { StoreSettings, TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { failures, messageColumns, PARKED_COLUMNS, type RowsAs } from '../columns.js';
import { BLOCKED, DEAD, SCHEDULED, WAITING } from '../../parked-state.js';
import { DURABLE, heldLeases } from '../ready/statements.js';
import { eachWay } from '../ready/rows-read.js';

export type ParkedStatements = ReturnType<typeof parkedStatements>;

type Ordering = StoreSettings['ordering'];

export function parkedStatements(names: TableNames, ordering: Ordering, errorHistory: number) {
  return {
    due: due(names, ordering),
    untried: untried(names),
    hasten: statement(
      'outbox_hasten',
      `update ${names.parked} o set due_at = now() where ${byIds(names.parked, 'for update skip locked')}
       and o.state = ${WAITING} and o.attempts = 0 and o.due_at + interval '0' > now()`,
    ),
    repark: repark(names, true, errorHistory),
    reparkLocked: repark(names, false, errorHistory),
    blockingKeys: blockingKeys(names),
    blockedAmong: statement(
      'outbox_blocked_among',
      `select k.b, k.key from unnest(?::smallint[], ?::text[]) k(b, key) cross join (select ?::smallint as id) t
       cross join lateral (${isBlocked(names.parked, ordering)}) x`,
    ),
    unannounced: eachWay((as) => unannounced(names, as)),
    markAnnounced: markAnnounced(names),
  };
}

/** A global order waits for any row, also for one that is due. */
function isBlocked(parked: string, ordering: Ordering): string {
  const row = `(select 1 from ${parked} o where o.transport = t.id and o.bucket = k.b`;
  if (ordering !== 'global') return `${row} and o.key = k.key and o.blocking limit 1)`;
  return `${row} and o.blocking limit 1) union all ${row} and o.due_at <= now() limit 1) limit 1`;
}

/**
 * Rows by their ids, looked up one by one. Conditions beside it are written so that no index fits them (`+ 0`): on a
 * table that was empty when the statement was planned, the planner otherwise reads all due rows, or a whole index.
 */
export const byIds = (parked: string, locking = 'offset 0'): string =>
  `o.ctid = any(array(select x.ctid from unnest(?::bigint[]) k(id)
     cross join lateral (select p.ctid from ${parked} p where p.parked_id = k.id ${locking}) x))`;

/**
 * First row: milliseconds until the next due time of these buckets. `now()`, because a volatile clock is no index condition.
 * From infinity, which other programs may write, nothing can be subtracted.
 */
function due({ parked, leases }: TableNames, ordering: Ordering): Statement {
  // A row that holds nobody back, and never will, is nobody's successor either: it goes as one without a key.
  const ofKey = ordering === 'global' ? `''` : 'x.key';
  const key = `case when x.blocking${ordering === 'none' ? '' : ` or x.state = ${SCHEDULED}`} then ${ofKey} end`;
  return statement(
    'outbox_due',
    `select null::bigint, null::smallint, null::text, null::smallint,
       ceil(extract(epoch from (select min(x.due_at) from unnest(?::smallint[]) c(b) cross join lateral
         (select o.due_at from ${parked} o where o.transport = ? and o.bucket = c.b and o.due_at > now()
          and o.due_at < 'infinity' order by o.due_at limit 1) x) - now()) operator(pg_catalog.*) 1000)::bigint
     union all (select x.parked_id, x.bucket, ${key}, x.state, null from unnest(?::smallint[]) c(b)
       left join lateral (select l.epoch from ${leases} l where l.transport = ? and l.bucket = c.b offset 0) l on true
       cross join lateral (select o.* from ${parked} o where o.transport = ? and o.bucket = c.b and o.due_at <= now()
         and o.sending_epoch is distinct from l.epoch order by o.due_at, o.seq limit ?) x
       order by x.due_at, x.seq limit ?)`,
  );
}

/** Rows that wait without an attempt, which have an index of their own, and whether they are not due yet. */
function untried({ parked }: TableNames): Statement {
  return statement(
    'outbox_untried',
    `select o.parked_id, o.bucket, o.topic, o.due_at > now() from ${parked} o
     where o.transport = ? and o.state = ${WAITING} and o.attempts = 0 and o.parked_id > ? order by o.parked_id limit ?`,
  );
}

/** Fenced: rows that this epoch is sending, in the life that they were sent in. Otherwise: rows that this transaction has locked. */
function repark({ parked, leases }: TableNames, fenced: boolean, errorHistory: number): Statement {
  const mine =
    'o.transport = h.transport and o.bucket = h.bucket and o.sending_epoch = h.epoch and o.attempts = k.before';
  return statement(
    fenced ? 'outbox_repark' : 'outbox_repark_locked',
    `with ${fenced ? `held as materialized (${heldLeases(leases, false)}),` : ''}
     k as materialized (select k.*, x.place from unnest(?::bigint[], ?::smallint[], ?::smallint[], ?::boolean[], ?::int[], ?::int[], ?::float8[], ?::text[], ?::text[], ?::boolean[])
         k(id, b, state, blocking, attempts, before, delay, error, progress, changed) ${fenced ? 'join held h on h.bucket = k.b' : ''}
       cross join lateral (select o.ctid as place from ${parked} o where o.parked_id = k.id ${fenced ? `and ${mine}` : ''} offset 0) x),
     done as (update ${parked} o set state = k.state, blocking = k.blocking, attempts = k.attempts, sending_epoch = null,
         due_at = case when k.state = ${WAITING} then clock_timestamp() + coalesce(k.delay, 0) * interval '1 ms' end,
         died_at = case when k.state = ${DEAD} then clock_timestamp() end, announced = false,
         attempted_at = case when k.error is null then o.attempted_at else clock_timestamp() end,
         last_error = coalesce(k.error, o.last_error), errors = ${failures(errorHistory, 'o.errors')},
         progress = case when k.changed then k.progress else o.progress end
       from k where o.ctid = k.place and o.parked_id = k.id returning 1)
     select pg_current_xact_id(), (select count(*) from done), ${DURABLE}, (select count(*) from k)`,
  );
}

/** From key to key through the index: 100,000 rows behind one key cost one step. Each bucket from a text on. */
function blockingKeys({ parked, leases }: TableNames): Statement {
  return statement(
    'outbox_blocking_keys',
    `with recursive k as (
       (select c.b, x.key from unnest(?::smallint[], ?::text[]) c(b, first) cross join lateral (select o.key from ${parked} o
         where o.transport = ? and o.bucket = c.b and o.blocking and o.key >= c.first order by o.key limit 1) x)
       union all
       select k.b, x.key from k cross join lateral (select o.key from ${parked} o
         where o.transport = ? and o.bucket = k.b and o.blocking and o.key > k.key order by o.key limit 1) x)
     select k.b, k.key, x.ready from k
     left join lateral (select l.epoch from ${leases} l where l.transport = ? and l.bucket = k.b offset 0) l on true
     cross join lateral (select (o.state = ${BLOCKED} or o.sending_epoch is not null and o.state <> ${DEAD})
         and o.sending_epoch is distinct from l.epoch as ready
       from ${parked} o where o.transport = ? and o.bucket = k.b and o.key = k.key and o.blocking
       order by o.seq, o.parked_id limit 1) x limit ?`,
  );
}

/** In microseconds: exact, on every version of the server. */
const DIED = `(extract(epoch from o.died_at) operator(pg_catalog.*) 1000000)::bigint`;

function unannounced({ parked }: TableNames, as: RowsAs): Statement {
  return statement(
    `outbox_unannounced_${as}`,
    `select x.* from unnest(?::smallint[], ?::bigint[]) t(t, after) cross join lateral (select ${messageColumns(as, 'parked')}, ${PARKED_COLUMNS},
         o.transport, o.last_error, ${DIED} as died
       from ${parked} o where o.transport = t.t and o.died_at is not null and not o.announced and o.parked_id > t.after
       order by o.parked_id limit ?) x limit ?`,
  );
}

/** The death is compared where a row that somebody changed meanwhile is looked at again. */
function markAnnounced({ parked }: TableNames): Statement {
  return statement(
    'outbox_announced',
    `with k as materialized (select k.*, x.place from unnest(?::bigint[], ?::bigint[]) k(id, died)
       cross join lateral (select p.ctid as place from ${parked} p where p.parked_id = k.id offset 0) x)
     update ${parked} o set announced = true from k
     where o.ctid = k.place and o.parked_id = k.id and o.state = ${DEAD} and ${DIED} = k.died`,
  );
}
