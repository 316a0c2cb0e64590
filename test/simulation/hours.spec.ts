import { PlayProcess } from './play-process.js';
import type { Told, ToldFate } from './outage-process.js';
import { away, drawOutage, HOUR } from './plan-hours.js';
import { BROKER_FAULTS, type BrokerFault, type PlannedFault } from './plan-faults.js';
import { BEHIND } from './plan-variants.js';
import type { Plan } from './plan.js';

const BEGINS = 2_000;
/** Odd, at its end: the broker that takes no writes takes none at all (`broker.ts`). */
const LASTS = 10 * HOUR + 1;
/** Milliseconds in which what is on its way when the broker goes, and the first messages after it came back, are through. */
const EDGE = 60_000;

/** Who does not know of a connection yet hears of no request to wait. */
const IN_TURN: readonly BrokerFault[] = ['broker blocks', ...BROKER_FAULTS.filter((kind) => kind !== 'broker blocks')];
const BLOCKS_IN_PUBLISH: PlannedFault = { ...away('broker blocks', BEGINS, LASTS), when: 'publish', after: 0.1 };
const OF_BROKER: readonly (readonly [string, readonly PlannedFault[]])[] = [
  ...BROKER_FAULTS.map((kind) => [kind, [away(kind, BEGINS, LASTS)]] as const),
  ['broker blocks in the middle of a publish', [BLOCKS_IN_PUBLISH]],
  [
    'broker is silent, and blocks in the middle of a publish',
    [away('broker silent', BEGINS, LASTS), BLOCKS_IN_PUBLISH],
  ],
  ['each of them in turn', IN_TURN.map((kind, n) => away(kind, BEGINS + 2 * n * HOUR, 2 * HOUR + 1))],
];

const names = (fates: readonly ToldFate[]): string[] => fates.map(({ name }) => name);
const isOfSecond = (name: string): boolean => Number(name.split('#')[1]) > BEHIND;

/** Everything once at least, in order, by the usual time after the end; no attempt, and with that no dead letter. */
function expectNobodyPaid({ violations, charged, fates, committed }: Told): void {
  expect(violations).toEqual([]);
  expect(charged).toBe(0);
  expect(names(fates.filter(({ deaths, taken }) => deaths > 0 || taken.length === 0))).toEqual([]);
  expect(fates.length).toBe(committed);
}

describe('hours', () => {
  let player: PlayProcess<Plan, Told>;
  beforeAll(() => {
    player = new PlayProcess(new URL('outage-process.ts', import.meta.url));
  });
  afterAll(() => player.end());
  const play = (plan: Plan): Promise<Told> => player.ask(plan);
  jest.setTimeout(900_000); // each plays hours, and takes as long as the processor is busy with others

  it.each(OF_BROKER)('C16: without a broker (%s) charge nobody, and nothing goes out', async (_, faults) => {
    const outcome = await play(drawOutage(1, faults));
    expectNobodyPaid(outcome);
    const ends = BEGINS + LASTS;
    const during = outcome.fates.filter(({ committed = 0 }) => committed > BEGINS + EDGE && committed < ends - EDGE);
    expect(during.length).toBeGreaterThan(80);
    expect(names(during.filter(({ taken }) => (taken[0] as number) < ends))).toEqual([]);
    expect(outcome.fates.some(({ taken }) => (taken[0] as number) < BEGINS)).toBe(true);
  });

  it('C2, C16: with some destinations away, and the others there, charge nobody and let the others go on', async () => {
    const outcome = await play(drawOutage(5, [away('broker refuses', BEGINS, 2 * HOUR)]));
    expectNobodyPaid(outcome);
    const during = outcome.fates.filter(({ committed = 0 }) => committed > BEGINS && committed < 2 * HOUR - EDGE);
    const goneOut = (key: string): number[] => {
      const ofKey = during.filter((fate) => fate.key === key);
      return [ofKey.length, ofKey.filter(({ taken }) => (taken[0] as number) < BEGINS + 2 * HOUR).length];
    };
    const [[a, aOut], [b, bOut], [c, cOut]] = ['a', 'b', 'c'].map(goneOut) as [number[], number[], number[]];
    expect(c).toBeGreaterThan(20);
    expect([aOut, bOut, cOut]).toEqual([a, b, 0]);
  });

  it.each(BROKER_FAULTS)('B9: without one broker (%s) keep nothing from another one', async (kind) => {
    const { violations, fates } = await play(drawOutage(4, [away(kind, BEGINS, LASTS)], true));
    expect(violations).toEqual([]);
    const during = fates.filter(({ committed = 0 }) => committed > BEGINS + EDGE && committed < LASTS - EDGE);
    const late = during.filter(({ committed = 0, taken }) => (taken[0] as number) - committed > EDGE);
    const others = during.filter(({ name }) => isOfSecond(name));
    expect(others.length).toBeGreaterThan(80);
    expect(late.length).toBe(during.length - others.length);
    expect(names(late).filter(isOfSecond)).toEqual([]);
  });

  it('C16: without a database charge nobody', async () => {
    const outcome = await play(drawOutage(2, [away('database away', BEGINS, 5 * HOUR)]));
    expectNobodyPaid(outcome);
    const during = outcome.fates.filter(({ committed = 0 }) => committed > BEGINS && committed < 5 * HOUR - EDGE);
    expect(during.length).toBeGreaterThan(80);
  });

  it('C16: without a broker, and for some of them without a database, charge nobody', async () => {
    const faults = [away('broker away', BEGINS, LASTS), away('database away', HOUR, 3 * HOUR)];
    expectNobodyPaid(await play(drawOutage(3, faults)));
  });
});
