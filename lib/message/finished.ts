import { isObservable, type ObservableLike } from './is-observable.js';

/**
 * Calls a function of the application, and says when it is done: a Promise when it is settled, an Observable, as `HttpService`
 * returns it, when it completes (it does nothing until it is subscribed to), a generator when it was run to its end. Anything
 * else was done when it was returned.
 */
export async function finished(work: () => unknown): Promise<void> {
  const result: unknown = await work();
  if (result === undefined) return;
  if (isObservable(result)) return completed(result);
  if (isGenerator(result)) for await (const _ of result);
}

function completed(observable: ObservableLike): Promise<void> {
  return new Promise((complete, error) => {
    observable.subscribe({ error, complete });
  });
}

/** By what it can do, not by its class: compilers make generators of their own. An array or a stream is none. */
function isGenerator(value: unknown): value is AsyncIterable<unknown> | Iterable<unknown> {
  const { next, [Symbol.iterator]: all, [Symbol.asyncIterator]: later } = (value ?? {}) as Record<PropertyKey, unknown>;
  return typeof next === 'function' && (typeof all === 'function' || typeof later === 'function');
}
