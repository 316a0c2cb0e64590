import { keyBytes } from '../../message/key-bytes.js';
import type { Dialect } from '../sql/dialect.js';
import { statement } from '../sql.js';
import { ALWAYS, condition } from '../sql/conditions.js';
import { readKey } from './columns.js';
import { readDate } from './inspect/rows.js';
import { marks } from './statements.js';

const timeText = (time: Date): string => time.toISOString().replace('T', ' ').replace('Z', '');

/** By the first column an index finds the place: neither server uses one for a comparison of rows. */
const compared: Dialect['compared'] = (order, sign, position) => {
  const [first, second] = order;
  const [one, two] = order.map(({ part }, n) => (part === 'number' ? BigInt(position[n] as string) : position[n]));
  if (first === undefined) return ALWAYS;
  if (second === undefined) return condition(`${first.name} ${sign} ?`, one);
  const strict = sign.charAt(0);
  return {
    conditions: [`${first.name} ${strict}= ?`, `(${first.name} ${strict} ? or ${second.name} ${sign} ?)`],
    values: [one, one, two],
  };
};

export const MYSQL: Dialect = {
  statement,
  now: 'utc_timestamp(6)',
  lastNumber: statement('last number', 'select last_insert_id()'),
  returning: () => '',
  number: BigInt,
  key: keyBytes,
  readDate,
  readKey,
  readBytes: (column) => column as Buffer | null,
  isTrue: (column) => Number(column) === 1,
  time: timeText,
  interval: 'interval (? * 1000) microsecond',
  readBack: ({ name }) => name,
  compared,
  column: (name) => `\`${name}\``,
  named: (column, ids) => condition(`${column} in (${marks(ids.length)})`, ...ids),
  numbered: (column, numbers) => condition(`${column} in (${marks(numbers.length)})`, ...numbers.map(BigInt)),
  // An order of texts may know no difference between two of them.
  sameText: (column, text) => condition(`cast(${column} as binary) = cast(? as binary)`, text),
};
