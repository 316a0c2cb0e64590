import type { RowFilter } from '../../inspect-store.js';

/** What a filter says of the texts of rows `o`. */
export function conditions({ key, topic, type }: Pick<RowFilter, 'key' | 'topic' | 'type'>): {
  text: string;
  values: string[];
} {
  const given = Object.entries({ key, topic, type }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  return {
    text: given.map(([column]) => ` and o.${column} = ?::text`).join(''),
    values: given.map(([, value]) => value),
  };
}
