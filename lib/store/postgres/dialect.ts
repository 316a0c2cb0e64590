import type { Dialect } from '../sql/dialect.js';
import { condition } from '../sql/conditions.js';
import { plainArray } from './arrays.js';
import { readDate, utc } from './inspect/rows.js';
import { statement } from './statement.js';

const VALUE = { number: '?::bigint', time: '?::timestamptz', text: '?::text collate "C"' } as const;

/** Every column comes as text. */
export const POSTGRES: Dialect = {
  statement,
  now: 'clock_timestamp()',
  lastNumber: undefined,
  returning: (column) => ` returning ${column}`,
  number: (text) => text,
  key: (text) => text,
  readDate,
  readKey: (column) => column as string | null,
  readBytes: (column) => (column === null ? null : Buffer.from((column as string).slice(2), 'hex')),
  isTrue: (column) => column === 't',
  time: (time) => time.toISOString(),
  interval: `(?::float8 operator(pg_catalog.*) interval '1 millisecond')`,
  readBack: ({ name, part }) => (part === 'time' ? utc(name) : name),
  compared: (order, sign, position) =>
    condition(
      `(${order.map(({ name }) => name).join(', ')}) ${sign} (${order.map(({ part }) => VALUE[part]).join(', ')})`,
      ...position,
    ),
  column: (name) => `o.${name}`,
  named: (column, ids) => condition(`${column} = any(?::uuid[])`, plainArray(ids)),
  numbered: (column, numbers) => condition(`${column} = any(?::bigint[])`, plainArray(numbers)),
  sameText: (column, text) => condition(`${column} = ?`, text),
};
