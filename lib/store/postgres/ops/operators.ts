import { fits, LIMITED_COLUMNS } from '../../limits.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { DEAD, WAITING } from '../../parked-state.js';
import type { OperatorSql } from '../../sql/operators.js';
import type { Removal, RowSql } from '../../sql/row-changes.js';
import type { Rows } from '../../sql/timed-selects.js';
import { plainArray, textArray } from '../arrays.js';
import { ARCHIVE_ORDER } from '../inspect/rows.js';
import { PAUSE_COLUMNS } from '../pauses/pauses.js';
import { statement } from '../statement.js';

/** Whether a row that is tried again holds later ones back. */
const BLOCKS = { key: '(o.key is not null)', strict: '(o.key is not null)', none: 'false', global: 'true' } as const;
const columnOf = (rows: Rows, n: number): string => plainArray(rows.map((row) => row[n] as string));

/** Run now and then, with filters of any shape: planned anew each time, from what is in the tables then. */
export function operatorSql(names: TableNames, settings: StoreSettings): OperatorSql {
  const { archive, audit, parked } = names;
  const isFit = `(${fits(LIMITED_COLUMNS, 'o.')}) is not false`;
  const content = [
    'o.topic',
    'o.key',
    'o.type',
    'o.content_type',
    'o.headers',
    'o.options',
    `encode(sha256(o.payload), 'hex')`,
  ];
  const fitting = content.map((column) => `case when ${isFit} then ${column} end`).join(', ');
  const clean = statement(
    undefined,
    `delete from ${audit} where ctid = any(array(select o.ctid from ${audit} o
       where o.begun_at < now() - ?::float8 * interval '1 ms' order by o.begun_at limit ? for update skip locked))`,
  );
  return {
    ...rowSql(names, settings),
    version: statement(
      undefined,
      `select o.id, o.transport, o.state, o.version, o.attempts, ${fitting} from ${parked} o where o.parked_id = ?::bigint`,
    ),
    ...pauseSql(names),
    archiveShape: ARCHIVE_ORDER.map(({ part }) => part),
    content: (places) => ({
      text: `select o.id, o.transport, o.topic, o.key, o.type, o.version, o.content_type, o.headers, o.options, o.payload
        from unnest(?::timestamptz[], ?::smallint[], ?::smallint[], ?::bigint[]) with ordinality k(p, t, b, s, n)
        cross join lateral (select * from ${archive} a
          where a.published_at = k.p and a.transport = k.t and a.bucket = k.b and a.seq = k.s offset 0) o order by k.n`,
      values: ARCHIVE_ORDER.map((_, n) => columnOf(places, n)),
    }),
    cleanAudit: (age, limit) => clean.bind(age, limit),
  };
}

function pauseSql({ pauses, transports }: TableNames): Pick<OperatorSql, 'pause' | 'resume' | 'pauses'> {
  return {
    pause: statement(
      undefined,
      `insert into ${pauses} (transport, topic, key, actor, reason) values (?, ?, ?, ?, ?) on conflict do nothing`,
    ),
    resume: statement(undefined, `delete from ${pauses} where transport = ? and topic = ? and key = ?`),
    pauses: statement(
      undefined,
      `select ${PAUSE_COLUMNS}, t.name from ${pauses} p left join ${transports} t on t.id = p.transport
         order by p.since, p.transport, p.topic, p.key`,
    ),
  };
}

function rowSql({ leases, parked, ready, archive }: TableNames, { ordering, coordination }: StoreSettings): RowSql {
  const meant = 'o.parked_id = any(?::bigint[])';
  const lockLeases = statement(
    undefined,
    `select l.transport, l.bucket, l.epoch, l.expires_at > clock_timestamp(), l.owner is not null from ${leases} l
     where (l.transport, l.bucket) in (select * from unnest(?::smallint[], ?::smallint[])) order by l.transport, l.bucket for share`,
  );
  // With row locks one that is being published is locked for as long as that takes: it is too late, and nobody waits.
  const lockParked = statement(
    undefined,
    `select o.parked_id, o.id, o.transport, o.bucket, o.key, o.state, o.blocking, o.sending_epoch from ${parked} o where ${meant}
     order by o.parked_id for update${coordination === 'rowLock' ? ' skip locked' : ''}`,
  );
  const requeue = statement(
    undefined,
    `update ${parked} o set state = ${WAITING}, due_at = now(), attempts = 0, blocking = ${BLOCKS[ordering]},
       sending_epoch = null, died_at = null, announced = false where ${meant}`,
  );
  const removeParked = statement(undefined, `delete from ${parked} o where ${meant}`);
  return {
    lockLeases: (places) => lockLeases.bind(columnOf(places, 0), columnOf(places, 1)),
    lockParked: (rowIds) => lockParked.bind(plainArray(rowIds)),
    requeue: (rowIds) => requeue.bind(plainArray(rowIds)),
    removeParked: (rowIds) => removeParked.bind(plainArray(rowIds)),
    unblock: statement(
      undefined,
      `update ${parked} o set blocking = false where o.transport = ? and o.bucket = ? and o.key = ? and o.blocking and o.state = ${DEAD}`,
    ),
    ready: removeReady(ready),
    archived: removeArchived(archive),
  };
}

function removeReady(ready: string): Removal {
  const remove = statement(
    undefined,
    `delete from ${ready} where ctid = any(array(select x.ctid
       from unnest(?::smallint[], ?::smallint[], ?::bigint[]) k(t, b, s)
       cross join lateral (select o.ctid from ${ready} o
         where o.transport = k.t and o.bucket = k.b and o.seq = k.s for update skip locked) x)) returning transport, bucket, seq, id`,
  );
  return { lock: undefined, remove: (rows) => remove.bind(columnOf(rows, 0), columnOf(rows, 1), columnOf(rows, 2)) };
}

/**
 * Past what the cleaner deletes just now. Row by row by the key, however the tables are planned. Each partition has places
 * of its own: the same one in another partition is of another row.
 */
export function removeArchived(archive: string): Removal {
  const remove = statement(
    undefined,
    `with meant as materialized (select x.part, x.place
       from unnest(?::timestamptz[], ?::smallint[], ?::smallint[], ?::bigint[]) k(at, t, b, s)
       cross join lateral (select o.tableoid as part, o.ctid as place from ${archive} o where o.published_at = k.at
         and o.transport = k.t and o.bucket = k.b and o.seq = k.s for update skip locked) x)
     delete from ${archive} where ctid = any(array(select place from meant)) and (tableoid, ctid) in (select part, place from meant)
     returning seq`,
  );
  return {
    lock: undefined,
    remove: (rows) =>
      remove.bind(textArray(rows.map(([at]) => at as string)), columnOf(rows, 1), columnOf(rows, 2), columnOf(rows, 3)),
  };
}
