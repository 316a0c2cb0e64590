import type { OutboxOptions } from '../outbox.options.js';

/** A mark of the process, set by the command line: an outbox that is opened in it runs no relay, whatever its options say. */
export const ENQUEUE_ONLY = Symbol.for('nestjs-outbox.enqueueOnly');

export function asMarked(options: OutboxOptions): OutboxOptions {
  return Reflect.get(globalThis, ENQUEUE_ONLY) === true ? { ...options, relay: false } : options;
}
