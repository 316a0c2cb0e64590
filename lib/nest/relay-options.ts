import { classifierFor } from '../enqueue/events/event-metadata.js';
import type { TransportWrapper } from '../options/transport-wrapper.js';
import type { Classifier, ResolvedOptions } from '../outbox.options.js';
import { inCleanScope } from '../time/async-scope.js';

/** What the relay calls of the application's, in nobody's context. */
export function withCleanScopes(options: ResolvedOptions): ResolvedOptions {
  const { deadLetter, retry } = options;
  const { backoff } = retry;
  const classify = eventsFirst(retry.classify);
  return {
    ...options,
    retry: {
      ...retry,
      classify: (...failure) => inCleanScope(() => classify(...failure)),
      backoff: typeof backoff === 'function' ? (...failed) => inCleanScope(() => backoff(...failed)) : backoff,
    },
    deadLetter: deadLetter && ((letter) => inCleanScope(() => deadLetter(letter))),
  };
}

/** What an event class says of its own failures, then what the module says of all. */
function eventsFirst(ofModule: Classifier | undefined): Classifier {
  return (error, message, blame) =>
    classifierFor(message)?.(error, message, blame) ?? ofModule?.(error, message, blame);
}

/** With all that is put around them, the last one outermost. */
export function wrapped(
  definitions: ResolvedOptions['transports'],
  wrappers: readonly TransportWrapper[],
): ResolvedOptions['transports'] {
  return new Map(
    [...definitions].map(([name, definition]) => [
      name,
      wrappers.reduce((inner, wrap) => wrap(name, inner), definition),
    ]),
  );
}
