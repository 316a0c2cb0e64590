import type { SqlConnection } from '../../executor.js';
import { LOOK_TIMEOUT, type HeldSnapshot } from '../../diagnose/diagnose-store.js';
import { literal, type TableNames } from '../../names.js';
import { statement } from '../statement.js';

const DEADLINE = statement(undefined, `set local statement_timeout = ${LOOK_TIMEOUT}`);

/**
 * The oldest of: sessions of this database, and of standbys that send feedback; replication slots; prepared transactions.
 * The ids of all of them are seen by every login, their age and state by its own role and `pg_read_all_stats`.
 */
function look({ ready }: TableNames): string {
  return `select kind, name, application, state, age, transaction,
    case when current_setting('track_counts') = 'on' then pg_stat_get_dead_tuples(to_regclass(${literal(ready)})) end,
    distance
  from (
    select 'session' as kind, pid::text as name, application_name as application, state,
      extract(epoch from clock_timestamp() - xact_start) * 1000 as age,
      pid || ' ' || coalesce(backend_xid::text, backend_xmin::text) as transaction,
      greatest(age(backend_xid), age(backend_xmin)) as distance
    from pg_catalog.pg_stat_activity
    where (backend_xid is not null or backend_xmin is not null) and (datname = current_database() or datname is null)
      and pid <> pg_backend_pid() and pid not in (select pid from pg_catalog.pg_stat_progress_vacuum)
    union all
    select 'replication slot', slot_name, slot_type, case when active then 'active' else 'inactive' end, null,
      slot_name, age(xmin)
    from pg_catalog.pg_replication_slots where xmin is not null
    union all
    select 'prepared transaction', gid, owner::text, null, extract(epoch from clock_timestamp() - prepared) * 1000,
      gid, age(transaction)
    from pg_catalog.pg_prepared_xacts where database = current_database()
  ) holders order by distance desc limit 1`;
}

export async function heldSnapshot(connection: SqlConnection, names: TableNames): Promise<HeldSnapshot | undefined> {
  const { rows } = await connection.transaction(async (tx) => {
    await tx.run(DEADLINE.bind());
    return tx.run(statement(undefined, look(names)).bind());
  });
  const [row] = rows as readonly (readonly (string | null)[])[];
  if (row === undefined) return undefined;
  const [kind, name, application, state, age, transaction, dead, distance] = row;
  return {
    server: 'PostgreSQL',
    holder: kind === 'session' ? `session ${name}` : `${kind} '${name}'`,
    details: [application, state].filter((each): each is string => each !== null && each !== ''),
    end:
      kind === 'session'
        ? `select pg_catalog.pg_terminate_backend(${name});`
        : 'Drop the replication slot, or end the prepared transaction.',
    transaction: String(transaction),
    age: age === null ? undefined : Number(age),
    distance: Number(distance),
    dead: dead === null ? undefined : Number(dead),
  };
}
