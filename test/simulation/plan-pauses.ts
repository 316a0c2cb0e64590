import type { PlannedFault } from './plan-faults.js';
import { topics } from './plan-missing.js';
import type { Plan } from './plan.js';
import { Random } from './random.js';

/**
 * In one history in eight an operator pauses the default transport once or twice, beside all that goes wrong: all of it, a topic, a
 * key, or a key in a topic. In most histories all messages have one topic.
 */
export function withPauses(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'pauses');
  if (!random.chance(1 / 8)) return plan;
  const parts = Random.of(plan.seed, 'parts that are paused');
  const pauses = Array.from({ length: random.whole(1, 2) }, (): PlannedFault => ({
    ...{ kind: 'paused', slot: 0, after: 0 },
    at: random.between(0, plan.turmoil),
    ms: random.between(500, plan.turmoil),
    ...(parts.chance(1 / 3) ? { topic: parts.pick(['orders', 'orders', ...topics()]) } : {}),
    ...(parts.chance(1 / 3) ? { key: `k${parts.whole(0, 3)}` } : {}),
  }));
  return { ...plan, faults: [...plan.faults, ...pauses] };
}
