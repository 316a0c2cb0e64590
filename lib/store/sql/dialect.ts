import type { RowFilter } from '../inspect-store.js';
import type { PositionPart } from '../position.js';
import type { Statement } from '../sql.js';
import type { Conditions } from './conditions.js';

/**
 * What differs between the databases, as data: nothing of it does I/O. Beside it each role has its statements in the words of each
 * database. Only what runs at the rate of messages (insert, fetch, settle) is written for each database as a whole.
 */
export interface Dialect {
  /** Asks, on the same connection, for the number that the last INSERT gave; `undefined` where the INSERT returns it. */
  readonly lastNumber: Statement | undefined;
  /** A value of a statement: a number of 64 bits, which is text everywhere else. */
  number(text: string): unknown;
  /** `null`: no time, or one that no calendar has. */
  readDate(column: unknown): Date | null;
  /** A column of text, or of the bytes of a key. */
  readKey(column: unknown): string | null;
  readBytes(column: unknown): Buffer | null;
  isTrue(column: unknown): boolean;
  /** A value of a statement: a time. */
  time(time: Date): unknown;
  /** An interval of so many milliseconds. */
  readonly interval: string;
  /** What reads a column of an order so that it can be compared with once more, to the microsecond. */
  readBack(column: Column): string;
  /** Whether a row stands there in an order: `>` behind it, `<=` up to it. */
  compared(order: readonly Column[], sign: '>' | '<' | '>=' | '<=', position: readonly string[]): Conditions;
  /** What a filter says of rows `o`. */
  filtered(filter: RowFilter): Conditions;
  /** Whether the id of a row `o` is among these. */
  named(ids: readonly string[]): Conditions;
}

interface Column {
  readonly name: string;
  readonly part: PositionPart;
}

export const readText = (column: unknown): string | null => (column === null ? null : String(column));
