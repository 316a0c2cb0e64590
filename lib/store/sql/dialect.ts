import type { PositionPart } from '../position.js';
import type { Statement } from '../sql.js';
import type { Conditions } from './conditions.js';

/**
 * What differs between the databases, as data: nothing of it does I/O. Beside it each role has its statements in the words of each
 * database. Only what runs at the rate of messages (insert, fetch, settle) is written for each database as a whole.
 */
export interface Dialect {
  statement(name: string | undefined, text: string): Statement;
  /** The time, as it passes within a transaction. */
  readonly now: string;
  /** Asks, on the same connection, for the number that the last INSERT gave; `undefined` where the INSERT returns it. */
  readonly lastNumber: Statement | undefined;
  /** What an INSERT has behind it then: `returning` this column. */
  returning(column: string): string;
  /** A value of a statement: a number of 64 bits, which is text everywhere else. */
  number(text: string): unknown;
  /** A value of a statement: the key of messages. */
  key(text: string): unknown;
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
  /** The name of a column of rows `o`. */
  column(name: string): string;
  /** Whether an id is among these. */
  named(column: string, ids: readonly string[]): Conditions;
  /** Whether a number is. */
  numbered(column: string, numbers: readonly string[]): Conditions;
  /** Whether a text is this one, byte by byte. */
  sameText(column: string, text: string): Conditions;
}

interface Column {
  readonly name: string;
  readonly part: PositionPart;
}

export const readText = (column: unknown): string | null => (column === null ? null : String(column));
