import { KeyQueues } from '../../lib/relay/order/key-queues.js';
import { drawPlan } from './plan.js';
import { play, type Outcome } from './scenario.js';
import { SEEDS } from './seeds.js';
import { partsOf, shrink } from './shrink.js';

const HISTORIES = 150;
const FAULTS = [
  ...['kill', 'freeze', 'sleep', 'restart', 'clock step'],
  ...['database away', 'database crash', 'statements fail', 'error', 'lost request', 'lost reply', 'late request'],
  ...['broker away', 'broker refuses', 'broker blocks', 'broker silent', 'broker unreachable'],
  ...['numbers go back', 'table emptied', 'failover', 'lease in the future', 'snapshot held', 'destination missing'],
  ...['connection to the broker breaks', 'the broker does not answer', 'late arrival', 'paused'],
];

jest.setTimeout(900_000); // a ceiling: it takes as long as the processor is busy with others

describe('the relay in virtual time', () => {
  it.each(SEEDS)('keeps its promises in history $seed, which found: $found', async ({ seed, noScan }) => {
    expect((await play(drawPlan(seed, noScan))).violations).toEqual([]);
  });

  it(`keeps its promises in ${HISTORIES} more, which know every fault`, async () => {
    const met = new Set<string>();
    for (let seed = 1; seed <= HISTORIES; seed += 1) {
      const { violations, faults } = await play(drawPlan(seed));
      expect({ seed, violations }).toEqual({ seed, violations: [] });
      for (const fault of faults.keys()) met.add(fault);
    }
    expect([...met].sort()).toEqual([...FAULTS].sort());
  });

  it('looks at everything never, where it is told so', async () => {
    const sweeps = (trace: readonly string[]): number =>
      trace.filter((line) => / sweep takes effect/.test(line)).length;
    const seed = 7;
    const often = { ...drawPlan(seed), scanEvery: 200 };
    const [scanned, never] = [await play(often, true), await play(drawPlan(seed, true), true)];
    expect(sweeps(never.trace)).toBeLessThan(sweeps(scanned.trace));
    expect(never.violations).toEqual([]);
  });

  it('plays the same history for the same seed', async () => {
    const [first, second] = [await play(drawPlan(7), true), await play(drawPlan(7), true)];
    expect(first.trace).toEqual(second.trace);
    expect(first.steps).toBeGreaterThan(100);
  });
});

describe('a bug in the relay', () => {
  afterEach(() => jest.restoreAllMocks());

  it('is told in a history that was cut down to what it needs', async () => {
    jest.spyOn(KeyQueues.prototype, 'accept').mockImplementation(function (this: KeyQueues, message) {
      this.ready.push(message); // whatever of its key is out
    });
    let broken: Outcome | undefined;
    for (let seed = 1; seed <= 50 && broken === undefined; seed += 1) {
      const outcome = await play(drawPlan(seed), true);
      const isOf4 = outcome.violations[0]?.startsWith('invariant 4: ') === true;
      // Where load comes late, most of the trace is of relays that wait for it, and is not cut.
      if (isOf4 && outcome.plan.turmoil < 50_000 && partsOf(outcome.plan, outcome.drawn) > 40) broken = outcome;
    }
    expect(broken).toBeDefined();
    const { outcome, parts } = await shrink(broken as Outcome, Infinity);
    expect(outcome.violations).toContainEqual(expect.stringMatching(/^invariant 4: /));
    expect(parts.to).toBeLessThanOrEqual(5); // a relay, two messages of one key, and little more
    expect(partsOf(outcome.plan)).toBe(parts.to);
    expect(outcome.trace.length).toBeLessThan((broken as Outcome).trace.length / 4);
  });
});
