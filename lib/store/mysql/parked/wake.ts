import { keyBytes } from '../../../message/key-bytes.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { BLOCKED } from '../../parked-state.js';
import { statement } from '../../sql.js';
import type { BlockingRow, TakeSql } from '../../sql/take.js';
import type { SeenRow, WakeSql } from '../../sql/wake.js';
import { jsonRows, jsonTable, LEASES, lookUp, type JsonCell } from '../json-rows.js';
import { leaseRows } from '../ops/leases.js';
import { BY_KEY, sized, times } from '../statements.js';

/** Of which one row each is asked for, and more. */
const KEYS_PER_STATEMENT = { one: 1_000, more: 64 };

/** Reads the first blocking rows of keys. */
export function mysqlHeads({ parked }: TableNames, ordering: StoreSettings['ordering']): TakeSql['first'] {
  // A global order has no index of its own: it sorts what blocks.
  const isGlobal = ordering === 'global';
  const columns = 'p.parked_id, p.state, p.due_at <= utc_timestamp(6), p.sending_epoch';
  const at = (transport: string, bucket: string, key: string): string =>
    `from ${parked} p force index (by_key) where p.transport = ${transport} and p.bucket = ${bucket} and p.blocking = 1
    ${isGlobal ? '' : `and p.\`key\` = ${key}`} order by ${isGlobal ? '' : `${BY_KEY}, `}p.seq, p.parked_id`;
  const some = sized((n) => times(n, `(select ?, ${columns} ${at('?', '?', '?')} limit ?)`, ' union all '));
  // As one subquery for all keys, in a tenth of the time.
  const one = statement(
    'first rows',
    `select h.n, ${columns} from (select k.n, (select p.parked_id ${at('k.t', 'k.b', 'unhex(k.h)')} limit 1) as id
      from ${jsonTable({ n: 'int', t: 'smallint', b: 'smallint', h: 'varchar(510)' })} limit ${KEYS_PER_STATEMENT.one}) h
      straight_join ${parked} p force index (primary) on p.parked_id = h.id`,
  );
  return async (tx, keys, perKey) => {
    const all: BlockingRow[] = [];
    const most = KEYS_PER_STATEMENT[perKey > 1 ? 'more' : 'one'];
    for (let from = 0; from < keys.length; from += most) {
      const part = keys.slice(from, from + most).map(({ transport, bucket, key }, i) => {
        return [from + i, transport, bucket, keyBytes(key)] as const;
      });
      const sql =
        perKey > 1
          ? some(part.length).bind(...part.flatMap((row) => [...row.slice(0, isGlobal ? 3 : 4), perKey]))
          : one.bind(jsonRows(part.map(([n, transport, bucket, key]) => [n, transport, bucket, key.toString('hex')])));
      for (const [key, parkedId, state, due, epoch] of (await tx.run(sql)).rows)
        all.push({
          ...{ key: Number(key), parkedId: String(parkedId), state: Number(state), due: Number(due) === 1 },
          sendingEpoch: epoch === null ? null : String(epoch),
        });
    }
    return all;
  };
}

export function mysqlWake({ parked, leases }: TableNames, first: TakeSql['first']): WakeSql {
  const seen = jsonTable({ p: 'bigint unsigned', s: 'tinyint', e: 'bigint unsigned', h: 'varchar(510)' });
  const wake = statement(
    'wake',
    `update ${lookUp(seen, `${parked} p`)} on p.parked_id = k.p
      set p.due_at = utc_timestamp(6) where p.state = k.s and p.sending_epoch <=> k.e
        and (p.state = ${BLOCKED} or p.\`key\` = unhex(k.h))`,
  );
  const lasting = statement(
    'held by somebody',
    `select l.transport, l.bucket, l.epoch from ${lookUp(LEASES, `${leases} l`)}
      on l.transport = k.t and l.bucket = k.b where l.epoch = k.e and l.expires_at > utc_timestamp(6)`,
  );
  const cells = ({ parkedId, state, sendingEpoch: epoch, key }: SeenRow): JsonCell[] => {
    return [BigInt(parkedId), state, epoch === null ? null : BigInt(epoch), keyBytes(key).toString('hex')];
  };
  return {
    first,
    lasting: (held) => lasting.bind(leaseRows(held)),
    wake: (rows) => wake.bind(jsonRows(rows.map(cells))),
  };
}
