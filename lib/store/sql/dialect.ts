import type { Statement } from '../sql.js';

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
}

export const readText = (column: unknown): string | null => (column === null ? null : String(column));
