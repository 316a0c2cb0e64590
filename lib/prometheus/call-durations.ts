import { aroundPublish, type TransportWrapper } from '../options/transport-wrapper.js';
import type { Clock } from '../time/clock.js';
import { finished } from '../message/finished.js';
import { aroundCalls } from '../transports/in-process/around-calls.js';
import type { PublishContext } from '../transports/transport.js';
import type { InProcessHandlers } from '../transports/in-process/handlers.js';

export const RESULTS = ['ok', 'failed'] as const;
/** Told how long a call of this transport or handler took, and how it ended. */
type Observe = (seconds: number, label: string, result: (typeof RESULTS)[number]) => void;

async function measured<T>(
  clock: Pick<Clock, 'monotonic'>,
  [label, observe]: readonly [label: string, observe: Observe],
  work: () => Promise<T>,
  isGood: (answer: T) => boolean = () => true,
): Promise<T> {
  const begin = clock.monotonic();
  let good = false;
  try {
    const answer = await work();
    good = isGood(answer);
    return answer;
  } finally {
    observe((clock.monotonic() - begin) / 1_000, label, good ? 'ok' : 'failed');
  }
}

/** Measures the publishes of all transports, and the calls of handlers. */
export function timed(clock: Pick<Clock, 'monotonic'>, publish: Observe, handler: Observe): TransportWrapper {
  const around = aroundPublish((original, name) => (batch, context) => {
    let failed = false;
    const report: PublishContext['report'] = (index, result) => {
      failed ||= result?.ok === false; // what is no result, the relay refuses
      context.report(index, result);
    };
    return measured(
      clock,
      [name, publish],
      () => original(batch, { ...context, report }),
      (results) => !failed && results?.some((result) => result?.ok === false) !== true,
    );
  });
  return (name, definition) => {
    if (definition.kind !== 'in-process') return around(name, definition);
    return around(name, {
      ...definition,
      create: (handlers) =>
        definition.create(
          aroundCalls(
            handlers as InProcessHandlers,
            (one) => (message, context) =>
              measured(clock, [one.id, handler], () => finished(() => one.call(message, context))),
          ),
        ),
    });
  };
}
