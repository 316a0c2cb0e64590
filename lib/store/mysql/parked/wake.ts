import { keyBytes } from '../../../message/key-bytes.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { BLOCKED } from '../../parked-state.js';
import { statement } from '../../sql.js';
import type { BlockingRow, TakeSql } from '../../sql/take.js';
import type { WakeSql } from '../../sql/wake.js';
import { jsonRows, jsonTable, LEASES, lookUp } from '../json-rows.js';
import { leaseRows } from '../ops/leases.js';
import { sized, times } from '../statements.js';

const KEYS_PER_STATEMENT = 64;

/** Reads the first blocking rows of keys. */
export function mysqlHeads({ parked }: TableNames, ordering: StoreSettings['ordering']): TakeSql['first'] {
  // A global order has no index of its own: it sorts what blocks.
  const isGlobal = ordering === 'global';
  const branch = `(select ? as k, parked_id, state, due_at <= utc_timestamp(6), sending_epoch
    from ${parked} force index (by_key) where transport = ? and bucket = ? and blocking = 1 ${isGlobal ? '' : 'and `key` = ?'}
    order by seq, parked_id limit ?)`;
  const first = sized((n) => times(n, branch, ' union all '));
  return async (tx, keys, perKey) => {
    const all: BlockingRow[] = [];
    for (let from = 0; from < keys.length; from += KEYS_PER_STATEMENT) {
      const some = keys.slice(from, from + KEYS_PER_STATEMENT);
      const values = some.flatMap(({ transport, bucket, key }, i) => {
        return [from + i, transport, bucket, ...(isGlobal ? [] : [keyBytes(key)]), perKey];
      });
      for (const [key, parkedId, state, due, epoch] of (await tx.run(first(some.length).bind(...values))).rows) {
        all.push({
          key: Number(key),
          parkedId: String(parkedId),
          state: Number(state),
          due: Number(due) === 1,
          sendingEpoch: epoch === null ? null : String(epoch),
        });
      }
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
  return {
    first,
    lasting: (held) => lasting.bind(leaseRows(held)),
    wake: (rows) =>
      wake.bind(
        jsonRows(
          rows.map(({ parkedId, state, sendingEpoch: epoch, key }) => {
            return [BigInt(parkedId), state, epoch === null ? null : BigInt(epoch), keyBytes(key).toString('hex')];
          }),
        ),
      ),
  };
}
