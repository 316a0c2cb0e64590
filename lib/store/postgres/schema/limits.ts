import { fits, LIMITED_COLUMNS } from '../../limits.js';
import type { SchemaDefinition, TableName, TableNames } from '../../names.js';
import { inCatalog } from './catalog.js';
import type { Table } from './tables.js';

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

export function limitsConstraint(names: TableNames, table: LimitedTable, definition: SchemaDefinition): string {
  return inCatalog(`constraint ${names.index(limitsName(table))} check (${limitsOf(table, definition)})`);
}

export function withLimits(
  names: TableNames,
  name: TableName | LimitedTable,
  table: Table,
  definition: SchemaDefinition,
): Table {
  const limited = LIMITED.find((each) => each === name);
  if (limited === undefined) return table;
  return { ...table, constraints: [...(table.constraints ?? []), limitsConstraint(names, limited, definition)] };
}
