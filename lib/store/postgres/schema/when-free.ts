import { literal } from '../../names.js';
import { oidOf } from './catalog.js';

/** Milliseconds for which a table is asked for at a time: whoever comes meanwhile waits behind, readers too. */
const PATIENCE = 100;
/** Seconds after which it is asked for no more. */
const TRIED = 60;
/** Seconds between two times, at most: who waited behind the last one comes first. */
const PAUSE = 0.25;

interface ShortChange {
  /** Qualified, quoted. */
  readonly table: string;
  /** SQL that says whether it is to be made. */
  readonly when: string;
  /** One statement, which ends at once where it has the table. */
  readonly change: string;
}

/**
 * A change that nobody may read or write beside. Where transactions of others hold the table, it is asked for again and
 * again, a moment each time: a request that waited for the longest of them would stop all that come after it.
 */
export function whenFree({ table, when, change }: ShortChange): string {
  const failed = `outbox: for ${TRIED} s transactions of others had ${table}; the change was not made`;
  const hint = 'End those that stay open (pg_stat_activity, column xact_start), and run it again.';
  return `do $outbox$ declare
  patience constant text := pg_catalog.current_setting('lock_timeout');
  last constant timestamp with time zone := pg_catalog.clock_timestamp() + interval '${TRIED} s';
begin
  if not (${when}) then return; end if;
  loop
    begin
      perform pg_catalog.set_config('lock_timeout', '${PATIENCE}', true);
      ${change};
      exit;
    exception when lock_not_available then
      if pg_catalog.clock_timestamp() > last then
        raise exception using errcode = 'lock_not_available', message = ${literal(failed)}, hint = ${literal(hint)};
      end if;
    end;
    perform pg_catalog.pg_sleep(pg_catalog.random() * pg_catalog.float8(${PAUSE}));
  end loop;
  perform pg_catalog.set_config('lock_timeout', patience, true);
end $outbox$`;
}

/** Whether the table has what its catalog's `condition` says. */
export const columnThere = (table: string, column: string): string =>
  `exists (select from pg_catalog.pg_attribute a where a.attrelid = ${oidOf(table)} and a.attname = '${column}' and not a.attisdropped)`;
