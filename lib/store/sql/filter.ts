import type { RowFilter } from '../inspect-store.js';
import { ALWAYS, allOf, condition, type Conditions } from './conditions.js';
import type { Dialect } from './dialect.js';

/** What a filter says of rows `o`. */
export function filtered(dialect: Dialect, { transport, olderThan, youngerThan, ...texts }: RowFilter): Conditions {
  const ago = `${dialect.now} - ${dialect.interval}`;
  const written = dialect.column('created_at');
  return allOf([
    sameTexts(dialect, texts),
    transport === undefined ? ALWAYS : condition(`${dialect.column('transport')} = ?`, transport),
    olderThan === undefined ? ALWAYS : condition(`${written} <= ${ago}`, olderThan),
    youngerThan === undefined ? ALWAYS : condition(`${written} >= ${ago}`, youngerThan),
  ]);
}

export function sameTexts(
  dialect: Dialect,
  { key, topic, type }: Pick<RowFilter, 'key' | 'topic' | 'type'>,
): Conditions {
  return allOf([
    key === undefined ? ALWAYS : condition(`${dialect.column('key')} = ?`, dialect.key(key)),
    topic === undefined ? ALWAYS : dialect.sameText(dialect.column('topic'), topic),
    type === undefined ? ALWAYS : dialect.sameText(dialect.column('type'), type),
  ]);
}
