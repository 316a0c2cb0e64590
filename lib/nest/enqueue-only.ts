import type { OutboxOptions } from '../outbox.options.js';

/**
 * A mark of the process, set by the command line: whatever its options say, an outbox that is opened in it runs no relay, makes no
 * tables and registers nothing.
 */
export const ENQUEUE_ONLY = Symbol.for('nestjs-outbox.enqueueOnly');
/** Value of the mark: its tables are neither compared nor made. Any other value leaves that to the options. */
export const UNCHECKED = 'unchecked';

const mark = (): unknown => Reflect.get(globalThis, ENQUEUE_ONLY);

export const isMarked = (): boolean => mark() === true || mark() === UNCHECKED;

export function asMarked(options: OutboxOptions): OutboxOptions {
  if (!isMarked()) return options;
  const { setup } = options.database ?? {};
  const own = mark() === UNCHECKED ? 'none' : setup === 'create' ? 'check' : setup;
  return { ...options, relay: false, database: { ...options.database, ...(own === undefined ? {} : { setup: own }) } };
}

/** The same, for what makes and changes tables: an outbox that is opened looks at none. They may not be there, or not as they should be. */
export const TABLES_APART = Symbol.for('nestjs-outbox.tablesApart');

export const areTablesApart = (): boolean => Reflect.get(globalThis, TABLES_APART) === true;
