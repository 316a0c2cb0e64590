import type { SqlExecutor } from '../../executor.js';
import { literal, type SchemaDefinition, type TableNames } from '../../names.js';
import { LIMITED, limitsConstraint, limitsName, limitsOf, type LimitedTable } from './limits.js';
import { rowsOf } from '../statement.js';

/** By their numbers, in order: servers print a condition each in a way of its own. */
export async function compareLimits(
  db: SqlExecutor,
  names: TableNames,
  definition: SchemaDefinition,
): Promise<string[]> {
  const wanted = LIMITED.filter((table) => table !== 'staged' || definition.ordering === 'strict');
  const list = wanted.map(
    (table) => `(${literal(table)}, ${literal(names[table])}, ${literal(definition.prefix + limitsName(table))})`,
  );
  const rows = await rowsOf(
    db,
    `select w.name, c.convalidated, pg_get_constraintdef(c.oid) from (values ${list.join(', ')}) w(name, id, limits)
       join pg_constraint c on c.conrelid = to_regclass(w.id) and c.conname = w.limits and c.contype = 'c'`,
  );
  const found = new Map(rows.map(([table, ...rest]) => [table as LimitedTable, rest as [string, string]]));
  return wanted.flatMap((table) => {
    const [validated, text] = found.get(table) ?? [];
    const name = names.index(limitsName(table));
    const alter = `alter table ${names[table]}`;
    const add = `add ${limitsConstraint(names, table, definition)}`;
    if (text === undefined) return [`${names[table]} has no constraint ${name} (run: ${alter} ${add})`];
    if (validated !== 't') {
      return [`the constraint ${name} of ${names[table]} is not validated (run: ${alter} validate constraint ${name})`];
    }
    if (numbersOf(text) === numbersOf(limitsOf(table, definition))) return [];
    return [`the constraint ${name} of ${names[table]} is another one (run: ${alter} drop constraint ${name}, ${add})`];
  });
}

const numbersOf = (text: string): string => (text.match(/\b\d+\b/g) ?? []).join(' ');
