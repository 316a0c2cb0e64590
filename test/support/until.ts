import { setTimeout as pause } from 'node:timers/promises';

/** Looks again until `condition` holds: for state that only a query can show. Throws after `ms`. */
export async function until(condition: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not so within ${ms} ms: ${condition.toString()}`);
    await pause(20);
  }
}
