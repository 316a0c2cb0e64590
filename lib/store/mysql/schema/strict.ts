import type { MysqlTable } from './tables.js';

/** Keys share this many locks: beside a hundred open transactions a key meets another one's lock once in 650 times. */
export const KEY_LOCKS = 65_536;

/** `ordering: 'strict'`: one row for each lock, never written again, so that a lock costs neither undo nor redo. */
export const KEY_LOCK_TABLE: MysqlTable = {
  columns: [['slot', 'smallint unsigned', 'not null']],
  keys: { primary: ['slot'] },
};

export function fillKeyLocks(table: string): string {
  const digits = `(${Array.from({ length: 16 }, (_, n) => `select ${n} as n`).join(' union all ')})`;
  return `insert into ${table} (slot) select a.n + 16 * b.n + 256 * c.n + 4096 * d.n
from ${digits} a cross join ${digits} b cross join ${digits} c cross join ${digits} d
where true on duplicate key update slot = slot`;
}
