import type { Dialect } from '../sql/dialect.js';
import { ALWAYS, allOf, condition } from '../sql/conditions.js';
import { plainArray } from './arrays.js';
import { readDate, utc } from './inspect/rows.js';
import { textConditions } from './inspect/text-conditions.js';
import { statement } from './statement.js';

const INTERVAL = `(?::float8 operator(pg_catalog.*) interval '1 millisecond')`;
const AGE = `clock_timestamp() - ${INTERVAL}`;
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
  interval: INTERVAL,
  readBack: ({ name, part }) => (part === 'time' ? utc(name) : name),
  compared: (order, sign, position) =>
    condition(
      `(${order.map(({ name }) => name).join(', ')}) ${sign} (${order.map(({ part }) => VALUE[part]).join(', ')})`,
      ...position,
    ),
  filtered: ({ transport, olderThan, youngerThan, ...texts }) =>
    allOf([
      textConditions(texts),
      transport === undefined ? ALWAYS : condition('o.transport = ?::smallint', transport),
      olderThan === undefined ? ALWAYS : condition(`o.created_at <= ${AGE}`, olderThan),
      youngerThan === undefined ? ALWAYS : condition(`o.created_at >= ${AGE}`, youngerThan),
    ]),
  named: (column, ids) => condition(`${column} = any(?::uuid[])`, plainArray(ids)),
  numbered: (column, numbers) => condition(`${column} = any(?::bigint[])`, plainArray(numbers)),
  sameText: (column, text) => condition(`${column} = ?`, text),
};
