import type { OutboxOptions } from '../outbox.options.js';

/** A mark of the process, set by the command line: an outbox that is opened in it runs no relay, whatever its options say. */
export const ENQUEUE_ONLY = Symbol.for('nestjs-outbox.enqueueOnly');
/** Value of the mark: its tables are neither compared nor made. Any other value leaves that to the options. */
export const UNCHECKED = 'unchecked';

export function asMarked(options: OutboxOptions): OutboxOptions {
  const mark: unknown = Reflect.get(globalThis, ENQUEUE_ONLY);
  if (mark !== true && mark !== UNCHECKED) return options;
  const marked = { ...options, relay: false };
  return mark === UNCHECKED ? { ...marked, database: { ...options.database, setup: 'none' } } : marked;
}

/** The same, for what makes and changes tables: an outbox that is opened looks at none. They may not be there, or not as they should be. */
export const TABLES_APART = Symbol.for('nestjs-outbox.tablesApart');

export const areTablesApart = (): boolean => Reflect.get(globalThis, TABLES_APART) === true;
