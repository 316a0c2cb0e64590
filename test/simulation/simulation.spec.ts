import { Scenario } from './scenario.js';

/**
 * Histories in which a fault that was once there, put back, breaks a promise: rows parked past what is out (274, 613), rows
 * that leave a sweep unseen by the fetch's snapshot (357; among the others 25 and 119). 83 and 134 convict a global order
 * that leases any bucket, 6 and 7 failures that are all charged to the message.
 */
const TELLING = [274, 357, 613];
const HISTORIES = 150;

describe('the relay in virtual time', () => {
  it.each(TELLING)('keeps its promises in history %i', async (seed) => {
    expect((await new Scenario(seed).play()).violations).toEqual([]);
  });

  it(`keeps its promises in ${HISTORIES} more`, async () => {
    for (let seed = 1; seed <= HISTORIES; seed += 1) {
      const { violations } = await new Scenario(seed).play();
      expect({ seed, violations }).toEqual({ seed, violations: [] });
    }
  }, 60_000);

  it('plays the same history for the same seed', async () => {
    const [first, second] = [await new Scenario(7, true).play(), await new Scenario(7, true).play()];
    expect(first.trace).toEqual(second.trace);
    expect(first.steps).toBeGreaterThan(100);
  });
});
