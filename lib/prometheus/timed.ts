import { aroundPublish, type TransportWrapper } from '../options/transport-wrapper.js';
import type { Clock } from '../time/clock.js';
import { finished } from '../message/finished.js';
import { aroundCalls } from '../transports/in-process/around-calls.js';
import type { InProcessHandlers } from '../transports/in-process/handlers.js';

/** Told how long a call took, well or not. */
type Observe = (label: string, seconds: number) => void;

/** Measures the publishes of all transports, and the calls of handlers. */
export function timed(clock: Pick<Clock, 'monotonic'>, publish: Observe, handler: Observe): TransportWrapper {
  const measured = async <T>(label: string, observe: Observe, work: () => Promise<T>): Promise<T> => {
    const begin = clock.monotonic();
    try {
      return await work();
    } finally {
      observe(label, (clock.monotonic() - begin) / 1_000);
    }
  };
  const around = aroundPublish(
    (original, name) => (batch, context) => measured(name, publish, () => original(batch, context)),
  );
  return (name, definition) => {
    if (definition.kind !== 'in-process') return around(name, definition);
    return around(name, {
      ...definition,
      create: (handlers) =>
        definition.create(
          aroundCalls(
            handlers as InProcessHandlers,
            (one) => (message, context) => measured(one.id, handler, () => finished(one.call(message, context))),
          ),
        ),
    });
  };
}
