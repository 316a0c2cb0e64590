import { AsyncResource } from 'node:async_hooks';

/**
 * What runs asynchronously inherits the AsyncLocalStorage context of whoever started it. A commit wakes the relay: without
 * this, everything that follows would run in the request that committed, for ever, as each timer is armed by the last turn.
 * Made when this file is loaded, which no request does.
 */
const ROOT = new AsyncResource('nestjs-outbox');

/**
 * Runs a function of the application's in nobody's context. In a scope of its own each time: `enterWith` in one would
 * else bind all that come after it.
 */
export function inCleanScope<T>(work: () => T): T {
  return ROOT.runInAsyncScope(newScope).runInAsyncScope(work);
}

function newScope(): AsyncResource {
  return new AsyncResource('nestjs-outbox');
}
