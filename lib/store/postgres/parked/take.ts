import { literal, type StoreSettings, type TableNames } from '../../names.js';
import { BLOCKED, SCHEDULED, WAITING } from '../../parked-state.js';
import type { Statement } from '../../sql.js';
import type { ReadSql, TakeSql } from '../../sql/take.js';
import { plainArray, textArray } from '../arrays.js';
import { messageColumns, PARKED_COLUMNS, readParked, type RowsAs } from '../columns.js';
import { leaseArrays } from '../ops/leases.js';
import { DURABLE, heldLeases } from '../ready/statements.js';
import { statement } from '../statement.js';
import { byIds } from './statements.js';

export function postgresTake(names: TableNames, ordering: StoreSettings['ordering']): TakeSql {
  const sql = takeStatements(names);
  const pairs = (rows: readonly (readonly [string, string | null])[]): [string, string] => [
    plainArray(rows.map(([id]) => id)),
    plainArray(rows.map(([, number]) => number)),
  ];
  return {
    async hold(tx, owner, leases) {
      const { rows } = await tx.run(sql.hold.bind(...leaseArrays(leases), owner));
      return new Map(
        rows.map(([transport, bucket, epoch]) => {
          return [Number(bucket), { transport: Number(transport), bucket: Number(bucket), epoch: epoch as string }];
        }),
      );
    },
    first: postgresHeads(names, ordering),
    async draw(tx, _transport, count) {
      return (await tx.run(sql.draw.bind(count))).rows.map(([number]) => number as string);
    },
    lock: (transport, ids) => sql.lock.bind(plainArray(ids), transport),
    join: (rows) => sql.join.bind(...pairs(rows)),
    demote: (ids) => sql.demote.bind(plainArray(ids)),
    mark: (rows) => sql.mark.bind(...pairs(rows)),
  };
}

/** Reads the first blocking rows of keys. */
export function postgresHeads(names: TableNames, ordering: StoreSettings['ordering']): TakeSql['first'] {
  const first = headsStatement(names, ordering);
  return async (tx, keys, perKey) => {
    const places = [[...keys.keys()], keys.map(({ transport }) => transport), keys.map(({ bucket }) => bucket)];
    const { rows } = await tx.run(first.bind(...places.map(plainArray), textArray(keys.map(({ key }) => key)), perKey));
    return rows.map(([key, parkedId, state, due, epoch]) => ({
      ...{ key: Number(key), parkedId: parkedId as string, state: Number(state) },
      ...{ due: due === 't', sendingEpoch: epoch as string | null },
    }));
  };
}

/** Of a global order, which has no index of its own, the first of all. */
export const headsStatement = ({ parked }: TableNames, ordering: StoreSettings['ordering']): Statement =>
  statement(
    'outbox_heads',
    `select k.n, x.* from unnest(?::int[], ?::smallint[], ?::smallint[], ?::text[]) k(n, t, b, key)
     cross join lateral (select o.parked_id, o.state, o.due_at <= now(), o.sending_epoch
       from ${parked} o where o.transport = k.t and o.bucket = k.b ${ordering === 'global' ? '' : 'and o.key = k.key'} and o.blocking
       order by o.seq, o.parked_id limit ?) x`,
  );

export function postgresRead({ parked }: TableNames, as: RowsAs): ReadSql {
  const columns = `${messageColumns(as, 'parked')}, ${PARKED_COLUMNS}, o.due_at <= now(), o.sending_epoch`;
  const lock = lockById(`outbox_take_${as}`, parked, columns);
  return { lock: (transport, ids) => lock.bind(plainArray(ids), transport), message: (row) => readParked(row, as) };
}

const lockById = (name: string, parked: string, columns: string): Statement =>
  statement(
    name,
    `select ${columns} from unnest(?::bigint[]) k(id)
     cross join lateral (select * from ${parked} p where p.parked_id = k.id and p.transport + 0 = ? for update skip locked) o`,
  );

/** Rows with a number `k.n` each, which this transaction has locked. */
const change = (parked: string, set: string): string =>
  `with k as materialized (select k.n, x.place, k.id from unnest(?::bigint[], ?::bigint[]) k(id, n)
     cross join lateral (select o.ctid as place from ${parked} o where o.parked_id = k.id offset 0) x)
   update ${parked} o set ${set} from k where o.ctid = k.place and o.parked_id = k.id`;

export function takeStatements(names: TableNames) {
  const { parked, leases } = names;
  return {
    hold: statement(
      'outbox_held',
      `with h as materialized (${heldLeases(leases, true)}) select h.transport, h.bucket, h.epoch, ${DURABLE} from h`,
    ),
    lock: lockById(
      'outbox_lock_parked',
      parked,
      'o.parked_id, o.bucket, o.key, o.state, o.blocking, o.due_at <= now(), o.sending_epoch',
    ),
    draw: statement(
      'outbox_numbers',
      `select nextval(${literal(names.object('ready_seq_seq'))}) from generate_series(1, ?::int)`,
    ),
    join: statement(
      'outbox_join_order',
      change(parked, `state = ${WAITING}, blocking = true, seq = coalesce(k.n, o.seq)`) + ` and o.state = ${SCHEDULED}`,
    ),
    demote: statement(
      'outbox_demote',
      `update ${parked} o set state = ${BLOCKED}, due_at = null where ${byIds(parked)} and o.state in (${WAITING}, ${BLOCKED})`,
    ),
    // A blocked one is found through its key, not through the due poll.
    mark: statement(
      'outbox_mark',
      change(parked, `sending_epoch = k.n, due_at = case when o.state = ${BLOCKED} then null else o.due_at end`),
    ),
  };
}
