import { keyBytes } from '../../../message/key-bytes.js';
import type { Conditions } from '../../sql/conditions.js';

/** What a filter says of texts, in either table. As bytes: text would ignore trailing spaces. */
export function textConditions(filter: Partial<Record<'key' | 'topic' | 'type', string | undefined>>): Conditions {
  const columns = { key: '`key`', topic: 'cast(topic as binary)', type: 'cast(type as binary)' } as const;
  const names = (['key', 'topic', 'type'] as const).filter((name) => filter[name] !== undefined);
  return {
    conditions: names.map((name) => `${columns[name]} = ?`),
    values: names.map((name) => (name === 'key' ? keyBytes : utf8)(filter[name] as string)),
  };
}

const utf8 = (text: string): Buffer => Buffer.from(text, 'utf8');
