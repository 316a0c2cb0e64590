import type { ArchiveLayout, ArchivePartition } from '../../partitions/partition-store.js';
import type { SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';

/** Takes what no partition is for. */
export const CATCH_ALL = 'pmax';
/** Where rows wait for their partition. */
export const ASIDE = 'archive_aside';
const METHOD = 'RANGE COLUMNS';
const COLUMN = 'published_at';
const MAXVALUE = 'MAXVALUE';
/** With its quotes. Another text is no time that could be compared: nothing is dropped by it. */
const TIME = /^'(\d{4}-\d{2}-\d{2})(?: (\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?))?'$/;

const TABLE = 'table_schema = coalesce(?, database()) and table_name = ?';
const PARTITIONS = statement(
  'partitions',
  `select partition_name, partition_method, partition_expression, partition_description, subpartition_method, cast(create_time as char)
  from information_schema.partitions where ${TABLE} order by partition_ordinal_position`,
);
const OTHERS = statement(
  'partitions now',
  `select cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned), (select count(*) from information_schema.tables where ${TABLE})`,
);

interface Place {
  readonly schema?: string | undefined;
  readonly prefix: string;
}

export async function readLayout(db: SqlExecutor, { archive }: TableNames, place: Place): Promise<ArchiveLayout> {
  const schema = place.schema ?? null;
  const { rows } = await db.run(PARTITIONS.bind(schema, `${place.prefix}archive`));
  const [now, aside] = (await db.run(OTHERS.bind(schema, place.prefix + ASIDE))).rows[0] ?? [];
  const found = rows.filter(([name]) => name !== null);
  return {
    kind: found.length === 0 ? 'plain' : 'partitioned',
    problems: found.length === 0 ? [] : problemsOf(archive, found),
    partitions: partitionsOf(found),
    appendOnly: true,
    aside: Number(aside) > 0,
    catchAll: String(found.find(([name]) => name === CATCH_ALL)?.[5] ?? ''),
    now: Number(now),
  };
}

function problemsOf(archive: string, rows: readonly (readonly unknown[])[]): string[] {
  const [, method, expression] = rows[0] ?? [];
  const by = `${String(method)} (${String(expression).replaceAll('`', '')})`;
  const [lastName, , , lastBound] = rows.at(-1) ?? [];
  return [
    ...(by === `${METHOD} (${COLUMN})` ? [] : [`${archive} is partitioned by ${by}, not by ${METHOD} (${COLUMN})`]),
    ...(rows.some(([, , , , sub]) => sub !== null) ? [`${archive} has subpartitions`] : []),
    ...(lastName === CATCH_ALL && lastBound === MAXVALUE
      ? []
      : [
          `${archive} has no last partition ${CATCH_ALL} (run: alter table ${archive} add partition (partition ${CATCH_ALL} values less than (maxvalue)))`,
        ]),
  ];
}

function partitionsOf(rows: readonly (readonly unknown[])[]): ArchivePartition[] {
  let from: number | null = null;
  const partitions: ArchivePartition[] = [];
  for (const [name, , , bound] of rows) {
    if (name === CATCH_ALL) continue;
    const to = timeOf(String(bound));
    partitions.push({ name: String(name), from, to });
    from = to;
  }
  return partitions;
}

/** A bound that cannot be read has no end: such a partition is never old. */
export function timeOf(bound: string): number {
  const [, day, time = '00:00:00'] = TIME.exec(bound) ?? [];
  const at = Date.parse(`${day}T${time}Z`);
  return Number.isNaN(at) ? Infinity : at;
}
