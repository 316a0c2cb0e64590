import type { RowFilter } from '../../inspect-store.js';
import { allOf, ALWAYS, condition, type Conditions } from '../../sql/conditions.js';

/** What a filter says of the texts of rows `o`. */
export function textConditions(filter: Pick<RowFilter, 'key' | 'topic' | 'type'>): Conditions {
  const names = ['key', 'topic', 'type'] as const;
  return allOf(
    names.map((name) => (filter[name] === undefined ? ALWAYS : condition(`o.${name} = ?::text`, filter[name]))),
  );
}
