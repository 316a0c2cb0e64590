import { BROKER_FAULTS, NO_RATES, type FaultKind, type PlannedFault } from './plan-faults.js';
import type { Plan, PlannedTransaction, PlannedWriter } from './plan.js';
import { ofSecond } from './plan-variants.js';
import { Random } from './random.js';

export const HOUR = 3_600_000;
/** What an idle relay does in an hour is nearly all that these cost: it goes by the lease and the polls. */
const SLOW = { lease: '1m', pollInterval: '5s' } as const;
const AWAY: readonly FaultKind[] = [...BROKER_FAULTS, 'database away'];

/** One history in two thousand goes on for hours, in which a broker or the database is away; it takes as long as a hundred others. */
export function withHours(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'hours');
  if (!random.chance(1 / 2_000)) return plan;
  const at = random.between(0, plan.turmoil);
  const outage = away(random.pick(AWAY), at, random.between(8, 11) * HOUR);
  let n = 200_000;
  const writers = plan.writers.map((writer) => {
    const during = Array.from({ length: random.whole(2, 6) }, () => one((n += 1), random.between(0, 3 * HOUR)));
    return { ...writer, transactions: [...writer.transactions, ...during] };
  });
  const options = { ...plan.options, ...SLOW };
  const turmoil = Math.max(plan.turmoil, at + outage.ms);
  return { ...plan, options, turmoil, writers, faults: [...plan.faults, outage], lethal: null };
}

/**
 * Two relays, writers that go on whatever is away, and nothing that is any message's fault: the first failure would kill it.
 * @param beside whether a second transport publishes as much to a broker that is well
 */
export function drawOutage(seed: number, faults: readonly PlannedFault[], beside = false): Plan {
  const random = Random.of(seed, 'outage');
  const end = Math.max(...faults.map(({ at, ms }) => at + ms));
  let n = 0;
  const writer = (key: string | null): PlannedWriter => ({
    key,
    transactions: [
      ...Array.from({ length: 60 }, () => one((n += 1), random.between(0, 100))),
      ...Array.from({ length: 30 }, () => one((n += 1), random.between(0, end / 18))),
    ],
  });
  const writers = ['a', 'b', 'c', null].map(writer);
  return {
    seed,
    turmoil: end,
    floor: random.chance(0.35) ? 'probe' : 'snapshot',
    atomicRuns: random.chance(0.4),
    options: {
      ...SLOW,
      publishTimeout: '1s',
      buckets: 4,
      batchSize: 10,
      retry: { initial: 20, max: 500, maxAttempts: 1 },
    },
    rates: NO_RATES,
    relays: [
      { slot: 0, at: 0 },
      { slot: 1, at: 200 },
    ],
    writers: beside ? [...writers, ...writers.map((each) => ofSecond(each, true))] : writers,
    acts: [],
    faults,
    lethal: null,
  };
}

export const away = (kind: FaultKind, at: number, ms: number): PlannedFault => ({ at, kind, slot: 0, ms, after: 0 });

export const one = (n: number, pause: number): PlannedTransaction => ({
  pause,
  messages: [{ n, refused: 0, delay: null, pause: 0, insert: 0 }],
  hold: 0,
  rollback: false,
  asynchronous: 0,
});
