import { NO_RATES, type PlannedFault } from './plan-faults.js';
import { one } from './plan-hours.js';
import type { Plan, PlannedWriter } from './plan.js';
import { Random } from './random.js';

/** Of the message with this number, where its broker has several. */
export const topicOf = (n: number): string => `topic ${n % TOPICS}`;
/** All that are known before there is a message. To the last one none goes. */
export const topics = (): string[] => Array.from({ length: TOPICS + 1 }, (_, n) => topicOf(n % TOPICS)).map(named);
const named = (topic: string, n: number): string => (n < TOPICS ? topic : 'topic of nobody');
const TOPICS = 3;

/**
 * In one history in 32 messages go to three destinations, which are missing for a while, from the start or later; the broker
 * says so to whoever asks. In half of these nothing else goes wrong, and the others' messages are published as promptly as ever.
 */
export function withMissing(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'missing destinations');
  if (!random.chance(1 / 32)) return plan;
  const isAlone = random.chance(0.5);
  const { ordering, coordination } = plan.options;
  const faults = Array.from({ length: random.whole(1, 3) }, (): PlannedFault => {
    const at = random.chance(0.5) ? 0 : random.between(0, plan.turmoil);
    const fault = { kind: 'destination missing', at, slot: 0, after: 0, topic: random.pick(topics()) } as const;
    return { ...fault, ms: random.between(1_000, isAlone ? 60_000 : plan.turmoil) };
  });
  if (!isAlone || plan.held !== undefined || ordering === 'global' || coordination === 'rowLock')
    return { ...plan, destinations: 'mixed', faults: [...plan.faults, ...faults] };
  return alone(plan, faults, random);
}

/** Each key has its destination. What is back must be known before the history ends. */
function alone(plan: Plan, faults: readonly PlannedFault[], random: Random): Plan {
  const ends = Math.max(...faults.map(({ at, ms }) => at + ms));
  const writers = ['a', 'b', 'c'].map((key, index): PlannedWriter => ({
    key,
    transactions: Array.from({ length: 10 }, (_, n) => one(TOPICS * n + index + TOPICS, random.between(0, ends / 5))),
  }));
  const quiet = { rates: NO_RATES, acts: [], lethal: null, turmoil: ends + 45_000 };
  return { ...plan, ...quiet, destinations: 'by key', relays: plan.relays.slice(0, 2), writers, faults };
}
