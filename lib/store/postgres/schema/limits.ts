import { fits, LIMITED_COLUMNS, TOO_LARGE } from '../../limits.js';
import { literal, type SchemaDefinition, type TableNames } from '../../names.js';
import { inCatalog, oidOf } from './catalog.js';
import { whenFree } from './when-free.js';

/** Whoever may insert writes rows of any size, and with any bucket, where nothing says otherwise. */
export type LimitedTable = 'ready' | 'parked' | 'staged';
export const LIMITED: readonly LimitedTable[] = ['ready', 'parked', 'staged'];
export const limitsName = (table: LimitedTable): string => `${table}_limits`;

const FITS = fits(LIMITED_COLUMNS);
const inRange = (buckets: number): string => `bucket >= 0 and bucket < ${buckets}`;

/** Of the parked table only what others put there: the relay itself keeps a row that is too large among the dead. */
export function limitsOf(table: LimitedTable, { buckets }: Pick<SchemaDefinition, 'buckets'>): string {
  const fits = table === 'parked' ? `(state <> 1 or ${FITS})` : FITS;
  return `${inRange(buckets)} and ${fits}`;
}

/**
 * Adds them where they are missing. First for new rows, with a short lock; then for what is there, which goes on being
 * read and written. A bucket that nobody reads becomes the row's own, and a row that is too large is dead.
 */
export function addLimits(names: TableNames, definition: SchemaDefinition): string[] {
  const tables = LIMITED.filter((table) => table !== 'staged' || definition.ordering === 'strict');
  return tables.flatMap((table) => {
    const constraint = names.index(limitsName(table));
    const change = `alter table ${names[table]} add constraint ${constraint} check (${limitsOf(table, definition)}) not valid`;
    const repairs = table === 'staged' ? [] : [ownBucket(names[table], definition), bury(names, table)];
    return [
      inCatalog(whenFree({ table: names[table], when: `not ${thereIs(names, table, definition)}`, change })),
      inCatalog(`do $outbox$ begin
  if ${thereIs(names, table, definition, 'and not c.convalidated')} then
    ${[...repairs, `alter table ${names[table]} validate constraint ${constraint}`].join(';\n    ')};
  end if;
end $outbox$`),
    ];
  });
}

function thereIs(names: TableNames, table: LimitedTable, { prefix }: SchemaDefinition, and = ''): string {
  return `exists (select from pg_catalog.pg_constraint c where c.conrelid = ${oidOf(names[table])} and c.conname = ${literal(prefix + limitsName(table))} ${and})`;
}

/** For the way back to the version without them. */
export function dropLimits(names: TableNames, definition: SchemaDefinition): string[] {
  return LIMITED.map((table) =>
    inCatalog(
      whenFree({
        table: names[table],
        when: thereIs(names, table, definition),
        change: `alter table ${names[table]} drop constraint ${names.index(limitsName(table))}`,
      }),
    ),
  );
}

/** The formula of `enqueue/bucket-of.ts`. */
export function ownBucketOf(
  text: string,
  { buckets, ordering }: Pick<SchemaDefinition, 'buckets' | 'ordering'>,
): string {
  if (ordering === 'global') return '0';
  return `(select ((get_byte(h, 0) << 8) | get_byte(h, 1)) % ${buckets} from sha256(convert_to(${text}, 'UTF8')) h)`;
}

function ownBucket(table: string, definition: SchemaDefinition): string {
  return `update ${table} o set bucket = ${ownBucketOf('coalesce(o.key, o.id::text)', definition)} where not (${inRange(definition.buckets)})`;
}

const CONTENT =
  'transport, bucket, seq, id, topic, key, type, version, content_type, headers, options, payload, created_at, async_commit';

/** Dead, and in nobody's way: it is in no index that its key would not fit into. */
function bury({ ready, parked }: TableNames, table: 'ready' | 'parked'): string {
  const dead = `4, clock_timestamp(), ${literal(TOO_LARGE)}`;
  return table === 'ready'
    ? `with gone as (delete from ${ready} where not (${FITS}) returning ${CONTENT})
      insert into ${parked} (${CONTENT}, state, died_at, last_error) select ${CONTENT}, ${dead} from gone`
    : `update ${parked} set (state, died_at, last_error, due_at) = (${dead}, null) where state = 1 and not (${FITS})`;
}
