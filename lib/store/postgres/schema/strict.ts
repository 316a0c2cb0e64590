import { literal, type SchemaDefinition, type TableNames } from '../../names.js';
import { oidOf } from './catalog.js';
import { createFunction } from './function.js';
import { STAGED_COLUMNS } from './tables.js';

/**
 * A transaction locks its keys one by one up to so many, beyond it all keys at once: each lock takes a place in the
 * server's lock table (max_locks_per_transaction).
 */
const MOST_KEY_LOCKS = 64;

/**
 * `ordering: 'strict'`: keyed messages are staged, and move into the ready table when their transaction commits, each key
 * under a lock that is held until the commit is visible. So the numbers of a key are in the order of the commits.
 */
export function strictOrder(names: TableNames, definition: SchemaDefinition): string[] {
  const { prefix } = definition;
  const move = names.object('staged_move');
  const trigger = names.index('staged_move');
  const there = `from pg_catalog.pg_trigger t where t.tgrelid = ${oidOf(names.staged)} and t.tgname = ${literal(`${prefix}staged_move`)}`;
  return [
    createFunction(definition, 'staged_move', moveFunction),
    `revoke all on function ${move}() from public`,
    // Never dropped and made again: what is staged in between would stay there.
    unless(
      there,
      `create constraint trigger ${trigger} after insert on ${names.staged} deferrable initially deferred
      for each row when (new.leads) execute function ${move}()`,
    ),
    // Also in sessions with session_replication_role = replica: what they stage would stay there.
    unless(`${there} and t.tgenabled = 'A'`, `alter table ${names.staged} enable always trigger ${trigger}`),
  ];
}

const unless = (there: string, change: string): string =>
  `do $outbox$ begin if not exists (select ${there}) then ${change}; end if; end $outbox$`;

/** Also where they were never made: an outbox may have been strict once. */
export function strictOrderDown(names: TableNames): string[] {
  return [`drop table if exists ${names.staged}`, `drop function if exists ${names.object('staged_move')}()`];
}

/**
 * The first call takes all that the transaction has staged, so that its keys are locked in one order, whatever the order
 * of the inserts: no two commits wait for each other. Each later call looks for its own row alone, and that row is gone.
 * More would be quadratic: what the first call deleted stays in the index until the commit. The number is drawn after the
 * lock and, as everywhere, after the transaction's id. With `security definer` a writer needs no right but INSERT into the
 * staged table.
 */
function moveFunction({ staged, ready, dedup }: TableNames): string {
  const columns = STAGED_COLUMNS;
  const seed = 'tg_relid::bigint'; // advisory locks are the database's: each outbox has its own
  const gate = `hashtextextended('', -tg_relid::bigint)`;
  const gone = `with gone as (delete from ${staged} s where s.tx = mine returning s.*)`;
  const move = `insert into ${ready} (${columns}) select ${columns} from gone order by n`;
  return `
declare
  mine constant xid8 := pg_current_xact_id();
  locks bigint[];
  deduplicated boolean;
begin
  if not exists (select from ${staged} s where s.tx = mine and s.n = new.n) then return null; end if;
  select array_agg(k.hash order by k.hash), bool_or(k.deduplicated) into locks, deduplicated
  from (select hashtextextended(s.key, ${seed}) as hash, bool_or(s.dedup_key is not null) as deduplicated
    from ${staged} s where s.tx = mine group by 1) k;
  if cardinality(locks) > ${MOST_KEY_LOCKS} then
    perform pg_advisory_xact_lock(${gate});
  else
    perform pg_advisory_xact_lock_shared(${gate});
    perform pg_advisory_xact_lock(hash) from unnest(locks) hash;
  end if;
  if not deduplicated then
    ${gone}
    ${move};
  else
    ${gone},
    moved as (${move} returning id, transport, bucket, seq)
    update ${dedup} d set transports = d.transports || k.t, buckets = d.buckets || k.b, seqs = d.seqs || k.s
    from (select g.dedup_key as key, array_agg(m.transport) t, array_agg(m.bucket) b, array_agg(m.seq) s
      from gone g join moved m on m.id = g.id and m.transport = g.transport where g.dedup_key is not null group by 1) k
    where d.dedup_key = k.key;
  end if;
  return null;
end `;
}
