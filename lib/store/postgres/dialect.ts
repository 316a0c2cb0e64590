import type { Dialect } from '../sql/dialect.js';
import { readDate } from './inspect/rows.js';

/** Every column comes as text. */
export const POSTGRES: Dialect = {
  lastNumber: undefined,
  number: (text) => text,
  readDate,
  readKey: (column) => column as string | null,
  readBytes: (column) => (column === null ? null : Buffer.from((column as string).slice(2), 'hex')),
  isTrue: (column) => column === 't',
};
