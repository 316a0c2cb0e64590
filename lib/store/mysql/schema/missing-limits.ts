import type { SqlDatabase } from '../../executor.js';
import { LIMITED, LIMITS, limitsSql } from './schema.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement } from '../../sql.js';

/** Of tables that this user may see: each has a primary key. */
const SEEN = statement(
  'constraints',
  `select table_name, sum(constraint_name = concat(table_name, '_${LIMITS}')) from information_schema.table_constraints
  where constraint_schema = coalesce(?, database()) and table_name in (?, ?) group by table_name`,
);

/** An upgrade leaves out what would have stopped all who write for as long as it copies a large table. */
export async function missingLimits(
  database: SqlDatabase,
  names: TableNames,
  { schema, prefix, buckets }: StoreSettings,
): Promise<string[]> {
  const bound = SEEN.bind(schema ?? null, ...LIMITED.map((table) => prefix + table));
  const { rows } = await database.connection('read').run(bound);
  return LIMITED.filter((table) => rows.some(([name, limits]) => name === prefix + table && Number(limits) === 0)).map(
    (table) =>
      `${prefix}${table} takes rows of any bucket, and nobody reads those outside 0 to ${buckets - 1}: when the tables were upgraded it was too large to be copied while others write. Once it has few rows, run: alter table ${names[table]} ${limitsSql(names, table, buckets)}`,
  );
}
