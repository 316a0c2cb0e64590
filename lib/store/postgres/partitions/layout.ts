import type { ArchiveLayout, ArchivePartition } from '../../partitions/partition-store.js';
import type { SqlExecutor } from '../../executor.js';
import { literal, type TableNames } from '../../names.js';
import { oidOf } from '../schema/catalog.js';
import { statement } from '../statement.js';

/** Takes what no partition is for. */
export const CATCH_ALL = 'archive_default';
/** Where rows wait for their partition. */
export const ASIDE = 'archive_aside';
const KEY = 'RANGE (published_at)';
/** What the catalog prints in our sessions. Another text is no time that could be compared: nothing is dropped by it. */
const TIME = /^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:\.\d{1,6})?\+00$/;
const BOUNDS = /^FOR VALUES FROM \((?:'([^']+)'|MINVALUE)\) TO \((?:'([^']+)'|MAXVALUE)\)$/;

/** The catalog prints bounds in the session's time zone, which is UTC in all of ours. */
export async function readLayout(db: SqlExecutor, names: TableNames, prefix: string): Promise<ArchiveLayout> {
  const [archive, children] = [await db.run(archiveSql(names).bind()), await db.run(childrenSql(names).bind())];
  const [kind, key, now, aside] = archive.rows[0] ?? [];
  const found = children.rows.map(([name, childKind, bounds, oid]) => ({
    name: ownName(String(name), prefix),
    kind: String(childKind),
    bounds: String(bounds),
    oid: String(oid),
  }));
  const partitions = found.flatMap(({ name, bounds }) => partitionOf(name, bounds) ?? []);
  return {
    kind: kind === 'p' ? 'partitioned' : 'plain',
    problems: kind === 'p' ? problemsOf(names, String(key), found) : [],
    partitions: partitions.sort((a, b) => a.to - b.to),
    appendOnly: false,
    aside: aside === 't',
    catchAll: found.find(({ bounds }) => bounds === 'DEFAULT')?.oid ?? '',
    now: Number(now),
  };
}

interface Child {
  readonly name: string;
  readonly kind: string;
  readonly bounds: string;
  readonly oid: string;
}

function problemsOf(names: TableNames, key: string, children: readonly Child[]): string[] {
  const other = children.filter(({ kind }) => kind !== 'r').map(({ name }) => name);
  const catchAll = children.some(({ name, bounds }) => bounds === 'DEFAULT' && `archive_${name}` === CATCH_ALL);
  return [
    ...(key === KEY ? [] : [`${names.archive} is partitioned by ${key}, not by ${KEY}`]),
    ...(other.length === 0 ? [] : [`partitions of ${names.archive} are no plain tables: ${other.join(', ')}`]),
    ...(catchAll
      ? []
      : [
          `${names.archive} has no default partition ${names.object(CATCH_ALL)} (run: create table ${names.object(CATCH_ALL)} partition of ${names.archive} default)`,
        ]),
  ];
}

/** Bounds that cannot be read have no end: such a partition is never old. */
export function partitionOf(name: string, bounds: string): ArchivePartition | undefined {
  if (bounds === 'DEFAULT') return undefined;
  const [all, from, to] = BOUNDS.exec(bounds) ?? [];
  if (all === undefined) return { name, from: null, to: Infinity }; // of another key
  return { name, from: from === undefined ? null : timeOf(from), to: to === undefined ? Infinity : timeOf(to) };
}

function timeOf(text: string): number {
  const at = TIME.test(text) ? Date.parse(text.replace(' ', 'T').replace('+00', 'Z')) : Number.NaN;
  return Number.isNaN(at) ? Infinity : at;
}

/** A table that is named in another way is none of ours, whatever the rest of its name looks like. */
const ownName = (name: string, prefix: string): string =>
  name.startsWith(`${prefix}archive_`) ? name.slice(`${prefix}archive_`.length) : `table ${name}`;

const archiveSql = (names: TableNames) =>
  statement(
    undefined,
    `select c.relkind, pg_catalog.pg_get_partkeydef(c.oid), pg_catalog.floor(extract(epoch from clock_timestamp()) * 1000),
       to_regclass(${literal(names.object(ASIDE))}) is not null
     from pg_catalog.pg_class c where c.oid = ${oidOf(names.archive)}`,
  );

/** Those in another schema by their whole name: none of ours. */
const childrenSql = (names: TableNames) =>
  statement(
    undefined,
    `select case when k.relnamespace = p.relnamespace then k.relname::text else format('%s.%s', k.relnamespace::pg_catalog.regnamespace, k.relname) end,
       k.relkind, pg_get_expr(k.relpartbound, k.oid), k.oid
     from pg_catalog.pg_inherits i join pg_catalog.pg_class k on k.oid = i.inhrelid join pg_catalog.pg_class p on p.oid = i.inhparent
     where i.inhparent = ${oidOf(names.archive)}`,
  );
