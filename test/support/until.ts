import { setTimeout as pause } from 'node:timers/promises';

/**
 * Looks again until `condition` holds: for state that only a query can show. Throws after `ms`: longer than a full machine
 * takes for anything, shorter than a lease or a poll that the test must not wait for.
 */
export async function until(condition: () => boolean | Promise<boolean>, ms = 20_000, every = 20): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not so within ${ms} ms: ${condition.toString()}`);
    await pause(every);
  }
}
