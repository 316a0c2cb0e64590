/** A mark of the process, set by the command line: an outbox that is opened in it runs no relay, whatever its options say. */
export const ENQUEUE_ONLY = Symbol.for('nestjs-outbox.enqueueOnly');

export const isEnqueueOnly = (): boolean => Reflect.get(globalThis, ENQUEUE_ONLY) === true;
