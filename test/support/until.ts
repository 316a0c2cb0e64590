import { setTimeout as pause } from 'node:timers/promises';

/**
 * Looks again until `condition` holds: for state that only a query can show. Throws after `ms`: a minute says "never" on any
 * machine. What a test must not wait for (a lease, a poll) is set to more than that.
 */
export async function until(condition: () => boolean | Promise<boolean>, ms = 60_000, every = 20): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not so within ${ms} ms: ${condition.toString()}`);
    await pause(every);
  }
}
