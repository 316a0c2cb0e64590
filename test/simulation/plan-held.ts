import { NO_RATES, type PlannedFault } from './plan-faults.js';
import { one } from './plan-hours.js';
import type { Plan, PlannedWriter } from './plan.js';
import { Random } from './random.js';
import { A_DEAD_ROW } from './store/memory-dead.js';

/**
 * In one history in 32 somebody holds a snapshot for 10 to 60 s. In half of these nothing else goes wrong, but that a relay may be
 * killed, and somebody writes all the while: messages are published as promptly as reads can be that walk over what is gone.
 */
export function withHeldSnapshot(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'snapshot');
  if (!random.chance(1 / 32)) return plan;
  const isAlone = random.chance(0.5);
  const isWide = random.chance(0.4);
  const ms = random.between(isWide ? 50_000 : 10_000, 60_000);
  const fault = { kind: 'snapshot held', slot: 0, ms, after: 0 } as const;
  const scanEvery = isWide ? 2_000 : random.pick([1_000, 5_000, 45_000]);
  const firstSlice = isWide ? { firstSlice: WIDE } : {};
  if (isAlone && plan.options.coordination !== 'rowLock')
    return alone({ ...plan, scanEvery }, { ...fault, at: random.between(0, 3_000) }, firstSlice, random);
  const at = random.between(0, plan.turmoil / 2);
  const turmoil = Math.max(plan.turmoil, at + Math.min(fault.ms, 20_000));
  const held = { ...heldOf(plan), ...firstSlice };
  return { ...plan, scanEvery, held, turmoil, faults: [...plan.faults, { ...fault, at }] };
}

/** Two relays at most, and writers that go on; half of the time, where slices are cancelled for what is gone. */
function alone(plan: Plan, fault: PlannedFault, firstSlice: object, random: Random): Plan {
  const turmoil = fault.at + fault.ms;
  const pause = ('firstSlice' in firstSlice ? 1 : 2) * (turmoil / EACH);
  let n = 0;
  const writers = ['a', 'b', 'c', null].map((key): PlannedWriter => ({
    key,
    transactions: Array.from({ length: EACH }, () => one((n += 1), random.between(0, pause))),
  }));
  const relays = plan.relays.slice(0, 2);
  const faults = random.chance(0.5) ? [fault] : [fault, drawKill(fault, relays.length, random)];
  const quiet = { ...plan, relays, writers, turmoil, rates: NO_RATES, acts: [], faults, lethal: null };
  return { ...quiet, held: { ...heldOf(quiet), ...firstSlice } };
}

/** Whoever takes its buckets over begins before all that is gone. */
function drawKill({ at, ms }: PlannedFault, slots: number, random: Random): PlannedFault {
  const slot = random.whole(0, slots - 1);
  return { kind: 'kill', slot, at: at + random.between(0.3, 0.9) * ms, ms: random.between(500, 5_000), after: 0 };
}

/** All messages of the plan stand for so many rows that reading over them in one statement takes so long. */
function heldOf({ writers, floor }: Plan): { each: number } {
  const messages = writers.flatMap(({ transactions }) => transactions).flatMap((each) => each.messages).length;
  const rows = WHOLE[floor] / A_DEAD_ROW;
  // Odd, or no payload would be large, or all.
  return { each: 8 * Math.ceil(rows / messages / 8) + 1 };
}

/**
 * Milliseconds: some 10 million rows; where all of the last minute is read again and again, what a busy application publishes in
 * a minute.
 */
const WHOLE = { snapshot: 8_000, probe: 400 };
/** Numbers: as a slice may cover that was widened where no row is. */
const WIDE = 2n ** 24n;
/** Transactions of a writer. */
const EACH = 30;
