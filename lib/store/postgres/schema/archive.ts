import { literal, type TableNames } from '../../names.js';
import { ASIDE, CATCH_ALL } from '../partitions/layout.js';
import { oidOf } from './catalog.js';
import { tableBody } from './create-table.js';
import { postgresTables } from './tables.js';
import { viewOf } from './view.js';

/**
 * The archive in partitions by published time, of which only the catch-all is there. A plain one stays as it is. What is
 * stored how is a matter of each partition.
 */
export function createPartitioned(names: TableNames): string[] {
  const { archive: table } = postgresTables('');
  const { archive } = names;
  const catchAll = names.object(CATCH_ALL);
  const isWithout = `exists (select from pg_catalog.pg_class c where c.oid = ${oidOf(archive)} and c.relkind = 'p')
    and pg_catalog.to_regclass(${literal(catchAll)}) is null`;
  return [
    `create table if not exists ${archive} ${tableBody(names, 'archive', table)} partition by range (published_at)`,
    `do $outbox$ begin if ${isWithout} then create table ${catchAll} partition of ${archive} default with (${table.storage}); end if; end $outbox$`,
  ];
}

/** In one transaction, by the owner of the archive and of the view: the plain table goes aside, and a partitioned one takes its name. */
export function convertArchive(names: TableNames): string[] {
  const aside = names.object(ASIDE);
  return [
    `lock table ${names.archive} in access exclusive mode`,
    `alter table ${names.archive} rename to ${names.index(ASIDE)}`,
    `alter index if exists ${names.object('archive_pkey')} rename to ${names.index('archive_aside_pkey')}`,
    ...createPartitioned(names),
    copyRights(aside, names.archive),
    viewOf(names),
  ];
}

/** A relay that could not write into the archive any more would publish everything again and again. */
function copyRights(from: string, to: string): string {
  const target = literal(to);
  return `do $outbox$ declare
  statement text;
begin
  for statement in
    with source as (select c.oid, c.relowner, c.relacl from pg_catalog.pg_class c where c.oid = ${oidOf(from)}),
    rights as (
      select a.grantee, a.is_grantable, a.privilege_type as words from source s cross join lateral pg_catalog.aclexplode(s.relacl) a
      where a.grantee <> s.relowner
      union all
      select a.grantee, a.is_grantable, pg_catalog.format('%s (%I)', a.privilege_type, t.attname)
      from source s join pg_catalog.pg_attribute t on t.attrelid = s.oid cross join lateral pg_catalog.aclexplode(t.attacl) a)
    select pg_catalog.format('alter table %s owner to %I', ${target}, pg_catalog.pg_get_userbyid(s.relowner)) from source s
      where s.relowner <> (select r.oid from pg_catalog.pg_roles r where r.rolname = current_user)
    union all
    select pg_catalog.format('grant %s on table %s to %s%s', r.words, ${target},
      case r.grantee when 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(r.grantee)) end,
      case when r.is_grantable then ' with grant option' else '' end) from rights r
  loop
    execute statement;
  end loop;
end $outbox$`;
}
