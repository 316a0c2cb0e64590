import type { SqlConnection } from '../../executor.js';
import type { ReadyStore, SettledMessage, WriteReport } from '../../ready-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Sql, Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { plainArray } from '../arrays.js';
import { MOVED } from '../columns.js';
import { BLOCKED } from '../../parked-state.js';
import { untilNonePassedOver } from './passed-over.js';
import { DURABLE } from '../ready/statements.js';

/** Whether the holder of the lease is publishing row `o` now; the lease row must not change before the statement ends. */
const beingSent = (leases: string): string =>
  `exists (select from ${leases} l where l.transport = o.transport and l.bucket = o.bucket
     and l.epoch = o.sending_epoch and l.expires_at > clock_timestamp())`;

/** Success of a message in the parked table, whatever its state is there. */
export class PostgresParkedSettle {
  private readonly sql: Readonly<Record<'delete' | 'archive', Statement>>;

  constructor(
    readonly connections: { settle(): SqlConnection },
    names: TableNames,
    ordering: StoreSettings['ordering'],
  ) {
    this.sql = {
      delete: statement('outbox_settle_parked', settleParked(names, ordering, false)),
      archive: statement('outbox_archive_parked', settleParked(names, ordering, true)),
    };
  }

  async settle(...[transport, messages, onPublished]: Parameters<ReadyStore['settle']>): Promise<WriteReport> {
    return untilNonePassedOver(() => this.connections.settle().run(this.settleSql(transport, messages, onPublished)));
  }

  settleSql(transport: number, messages: readonly SettledMessage[], onPublished: 'delete' | 'archive'): Sql {
    const ids = plainArray(messages.map((message) => message.id));
    const seqs = plainArray(messages.map((message) => message.seq));
    return this.sql[onPublished].bind(ids, seqs, transport, transport);
  }
}

/**
 * When the row was not being sent under the current lease, a former owner's success removes it: the current owner will
 * not go on with the key by itself, so the key's next row becomes due.
 *
 * On disk before it is answered: of a row that a crash of the server brought back its owner would not know, and nobody else
 * takes it as long as the lease goes on.
 */
function settleParked(
  { parked, archive, leases }: TableNames,
  ordering: StoreSettings['ordering'],
  keep: boolean,
): string {
  const [keyed, sameKey] = ordering === 'global' ? ['', ''] : ['and key is not null ', 'and o.key = g.key '];
  return `with found as materialized (select x.place from unnest(?::uuid[], ?::bigint[]) k(i, s)
      cross join lateral (select p.ctid as place from ${parked} p where p.id = k.i and p.transport = ? and p.seq = k.s offset 0) x),
    gone as (delete from ${parked} o where o.ctid = any(array(select f.place from found f))
    returning ${MOVED}, parked_id, attempts, blocking ${keyed}and not ${beingSent(leases)} as unblocks),
    next as (update ${parked} set due_at = now() where ctid = any(array(select x.ctid
      from (select distinct g.bucket, g.key from gone g where g.unblocks) g
      cross join lateral (select o.ctid, o.state, ${beingSent(leases)} as sending from ${parked} o where o.transport = ? and o.bucket = g.bucket
        ${sameKey}and o.blocking and not exists (select from gone d where d.parked_id = o.parked_id)
        order by o.seq, o.parked_id limit 1) x where x.state = ${BLOCKED} and not x.sending)))
    ${keep ? `, kept as (insert into ${archive} (${MOVED}, attempts) select ${MOVED}, attempts from gone order by bucket, seq, parked_id)` : ''}
    select pg_current_xact_id(), (select count(*) from gone), ${DURABLE}, (select count(*) from found)`;
}
