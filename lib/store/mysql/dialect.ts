import type { Dialect } from '../sql/dialect.js';
import { statement } from '../sql.js';
import { readKey } from './columns.js';
import { readDate } from './inspect/rows.js';

export const MYSQL: Dialect = {
  lastNumber: statement('last number', 'select last_insert_id()'),
  number: BigInt,
  readDate,
  readKey,
  readBytes: (column) => column as Buffer | null,
  isTrue: (column) => Number(column) === 1,
};
