import { literal, type TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { failures, messageColumns, MOVED, type RowsAs } from '../columns.js';
import { eachWay } from './rows-read.js';

/**
 * One row of nothing but the snapshot of the statement itself, before the rows that were read in it; recognised by the
 * null in its first column. A column on every row would cost more than the row's key.
 * @param fence what follows the last number: it is evaluated when that was read
 */
function withSnapshot(names: TableNames, as: RowsAs, fence: string): string {
  const blank = ['null::smallint', 'null::bigint', 'null::uuid', 'pg_current_snapshot()::text', 'n.source', fence];
  const types = ['text', as === 'bytes' ? 'bytea' : 'text', 'timestamptz', 'text'];
  return `select ${[...blank, ...types.map((type) => `null::${type}`)].join(', ')}
     from (select ${numberSource(names)} as source offset 0) n`;
}

/**
 * Beside a write that must be on disk when it returns, whatever the session's default is: the setting holds for this
 * statement's own commit.
 */
export const DURABLE = `set_config('synchronous_commit', 'on', true)`;

/** Moves by place: unnested places, each looked up in the key's index, whatever the statistics say. */
export const BY_PLACE = (ready: string): string =>
  `ctid = any(array(select x.ctid from unnest(?::smallint[], ?::bigint[], ?::uuid[]) k(b, s, i)
    cross join lateral (select o.ctid from ${ready} o where o.transport = ? and o.bucket = k.b and o.seq = k.s and o.id = k.i offset 0) x))`;

/** Locks the lease rows that are still this owner's in this epoch: a takeover waits until this statement is through. */
export function heldLeases(leases: string, alive: boolean): string {
  return `select l.transport, l.bucket, l.epoch from unnest(?::smallint[], ?::smallint[], ?::bigint[]) e(t, b, e)
    cross join lateral (select l.transport, l.bucket, l.epoch from ${leases} l where l.transport = e.t and l.bucket = e.b
      and l.epoch = e.e and l.owner = ?${alive ? ' and l.expires_at > clock_timestamp()' : ''} for share) l`;
}

export type ReadyStatements = ReturnType<typeof readyStatements>;

export function readyStatements(names: TableNames, errorHistory: number) {
  return {
    fetch: eachWay((as) => fetch(names, as)),
    readPlaces: eachWay((as) => readPlaces(names, as)),
    sweep: sweep(names),
    settle: statement(
      'outbox_settle',
      `with gone as (delete from ${names.ready} where ${BY_PLACE(names.ready)} returning 1)
       select pg_current_xact_id(), (select count(*) from gone)`,
    ),
    // In their order: the archive's times tell in which order they were published, and a deletion goes by where rows lie.
    archive: statement(
      'outbox_archive',
      `with gone as (delete from ${names.ready} where ${BY_PLACE(names.ready)} returning ${MOVED}),
       kept as (insert into ${names.archive} (${MOVED}) select ${MOVED} from gone order by bucket, seq returning 1)
       select pg_current_xact_id(), (select count(*) from kept), ${DURABLE}`,
    ),
    park: park(names, true, errorHistory),
    parkLocked: park(names, false, errorHistory),
    flush: statement('outbox_flush', `select ${DURABLE}, pg_logical_emit_message(true, 'outbox', '')`),
  };
}

/** No ORDER BY at the end: a nested loop over `unnest` returns bucket after bucket, each in order of `seq`. */
function fetch(names: TableNames, as: RowsAs): Statement {
  const { ready } = names;
  return statement(
    `outbox_fetch_${as}`,
    `${withSnapshot(names, as, 'case when ?::boolean then pg_current_xact_id()::text end')}
     union all (select ${messageColumns(as, 'ready')}
     from unnest(?::smallint[], ?::bigint[], ?::bigint[]) c(b, s, h) cross join lateral (select * from ${ready} o
       where o.transport = ? and o.bucket = c.b and o.seq > c.s and o.seq <= c.h order by o.seq limit ?) o limit ?)`,
  );
}

/** A `tx` from the future is a restored row's: no snapshot will ever see it, and everybody does. */
function readPlaces(names: TableNames, as: RowsAs): Statement {
  const { ready } = names;
  return statement(
    `outbox_places_${as}`,
    `${withSnapshot(names, as, 'null::text')}
     union all (select ${messageColumns(as, 'ready')}
     from unnest(?::smallint[], ?::bigint[]) c(b, s) cross join lateral (select * from ${ready} o
       where o.transport = ? and o.bucket = c.b and o.seq = c.s
         and (pg_visible_in_snapshot(o.tx, ?::pg_snapshot) is not false or o.tx >= pg_snapshot_xmax(pg_current_snapshot())) offset 0) o)`,
  );
}

/** Keys only, an index-only scan where the visibility map allows. */
function sweep({ ready }: TableNames): Statement {
  return statement(
    'outbox_sweep',
    `select o.bucket, o.seq from unnest(?::smallint[], ?::bigint[], ?::bigint[]) c(b, s, h)
     cross join lateral (select o.bucket, o.seq from ${ready} o
       where o.transport = ? and o.bucket = c.b and o.seq > c.s and o.seq <= c.h order by o.seq limit ?) o`,
  );
}

/** From ready to parked in one statement. Rows of a lease that is not held any more, or that are gone, are left out. */
function park({ ready, parked, leases }: TableNames, fenced: boolean, errorHistory: number): Statement {
  return statement(
    fenced ? 'outbox_park' : 'outbox_park_locked',
    `with ${fenced ? `held as materialized (${heldLeases(leases, false)}),` : ''}
     k as materialized (select k.* from unnest(?::smallint[], ?::bigint[], ?::uuid[], ?::smallint[], ?::boolean[], ?::int[], ?::float8[], ?::text[], ?::text[])
       k(b, s, i, state, blocking, attempts, delay, error, progress) ${fenced ? 'where exists (select from held h where h.bucket = k.b)' : ''}),
     gone as (delete from ${ready} where ctid = any(array(select x.ctid from k cross join lateral (select o.ctid from ${ready} o
       where o.transport = ? and o.bucket = k.b and o.seq = k.s and o.id = k.i offset 0) x)) returning ${MOVED}),
     kept as (insert into ${parked} (${MOVED}, state, blocking, attempts, due_at, died_at, attempted_at, last_error, errors, progress)
       select ${MOVED}, k.state, k.blocking, k.attempts,
         case when k.state = 2 then clock_timestamp() + coalesce(k.delay, 0) * interval '1 ms' end,
         case when k.state = 4 then clock_timestamp() end, case when k.error is not null then clock_timestamp() end,
         k.error, ${failures(errorHistory, undefined)}, k.progress
       from gone g join k on k.b = g.bucket and k.s = g.seq returning 1)
     select pg_current_xact_id(), (select count(*) from kept), ${DURABLE}`,
  );
}

/**
 * When the server started, which file holds the rows, and the last number of the sequence, where this login may know it:
 * 2 µs a statement.
 */
function numberSource(names: TableNames): string {
  const sequence = `to_regclass(${literal(names.object('ready_seq_seq'))})`;
  return `concat_ws(' ', extract(epoch from pg_postmaster_start_time()), pg_relation_filenode(${literal(names.ready)}::regclass),
    (select case when has_sequence_privilege(q.s, 'select, usage') then coalesce(pg_sequence_last_value(q.s), 0) end from ${sequence} q(s)))`;
}

/** Positions in the synthetic row. */
export const SNAPSHOT_COLUMN = 3;
export const SOURCE_COLUMN = 4;
export const FENCE_COLUMN = 5;
