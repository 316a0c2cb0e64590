import type { OutboxHooks } from '../../observe/events.js';
import type { OutboxTransport } from '../../transports/transport.js';
import { DeadLetters } from './dead-letters.js';
import type { DatabaseFailures } from '../database-failures.js';
import { Loop } from '../../time/loop.js';
import type { RelayDependencies } from '../relay.js';

/**
 * Calls the dead-letter hook; `undefined` without one.
 * @param failed returns the delay until the next try
 */
export function deadLetterLoop(
  { options, store, clock, transportIds }: RelayDependencies,
  transports: ReadonlyMap<string, OutboxTransport>,
  hooks: OutboxHooks,
  failures: DatabaseFailures,
  failed: (error: unknown, pause: number) => number,
): Loop | undefined {
  if (options.deadLetter === undefined) return undefined;
  const names = new Map([...transports.keys()].map((name) => [transportIds.get(name) as number, name]));
  const letters = new DeadLetters(store, options.deadLetter, names, hooks, clock, options.publishTimeout);
  const every = Math.max(1_000, options.lease / 2);
  return new Loop(
    clock,
    async () => {
      const more = await letters.runOnce();
      failures.succeeded('deadLetter', null);
      return more ? 0 : every;
    },
    (error) => failed(error, every),
  );
}
