import type { StoreSettings, TableNames } from '../../names.js';
import { BLOCKED } from '../../parked-state.js';
import type { WakeSql } from '../../sql/wake.js';
import { plainArray, textArray } from '../arrays.js';
import { leaseArrays } from '../ops/leases.js';
import { statement } from '../statement.js';
import { postgresHeads } from './take.js';

export function postgresWake(names: TableNames, ordering: StoreSettings['ordering']): WakeSql {
  const { parked, leases } = names;
  const lasting = statement(
    undefined,
    `select l.transport, l.bucket, l.epoch from unnest(?::smallint[], ?::smallint[], ?::bigint[]) k(t, b, e)
     join ${leases} l on l.transport = k.t and l.bucket = k.b and l.epoch = k.e where l.expires_at > clock_timestamp()`,
  );
  const wake = statement(
    undefined,
    `with k as materialized (select k.*, x.place from unnest(?::bigint[], ?::smallint[], ?::bigint[], ?::text[]) k(id, state, epoch, key)
       cross join lateral (select o.ctid as place from ${parked} o where o.parked_id = k.id offset 0) x)
     update ${parked} o set due_at = now() from k where o.ctid = k.place and o.parked_id = k.id and o.state = k.state
       and o.sending_epoch is not distinct from k.epoch and (o.state = ${BLOCKED} or o.key = k.key)`,
  );
  return {
    first: postgresHeads(names, ordering),
    lasting: (held) => lasting.bind(...leaseArrays(held)),
    wake: (rows) =>
      wake.bind(
        plainArray(rows.map(({ parkedId }) => parkedId)),
        plainArray(rows.map(({ state }) => state)),
        plainArray(rows.map(({ sendingEpoch }) => sendingEpoch)),
        textArray(rows.map(({ key }) => key)),
      ),
  };
}
