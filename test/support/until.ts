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

/** Tries again until it does not fail; after a minute it fails as it did last. For what a slow machine may spoil. */
export async function untilDone<T>(attempt: () => Promise<T>): Promise<T> {
  for (const deadline = performance.now() + 60_000; ; await pause(20)) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
  }
}
