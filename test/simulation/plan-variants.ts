import { BROKER_FAULTS, NO_RATES, type PlannedFault } from './plan-faults.js';
import type { Plan, PlannedWriter } from './plan.js';
import { Random } from './random.js';

/** Each draws from a stream of its own: whom it leaves alone plays what it played before. */

/** Name of the second transport, where there is one. */
export const SECOND = 'second';
/** The numbers of its messages come behind this one. */
export const BEHIND = 100_000;

/**
 * One history in ten has a second transport with messages and a broker of its own. In half of these nothing goes wrong but
 * the first one's broker: then the others' messages are published as promptly as ever.
 */
export function withSecond(plan: Plan, drawWriters: () => readonly PlannedWriter[]): Plan {
  const random = Random.of(plan.seed, 'second transport');
  if (!random.chance(0.1)) return plan;
  const isolated = random.chance(0.5);
  const writers = [...plan.writers, ...drawWriters().map((writer) => ofSecond(writer, isolated))];
  const faults = Array.from({ length: random.whole(1, 3) }, (): PlannedFault => {
    const fault = { at: random.between(0, plan.turmoil), slot: 0, ms: random.between(1_000, 15_000), after: 0 };
    const whose = isolated || random.chance(0.5) ? {} : { transport: SECOND };
    return { ...fault, ...whose, kind: random.pick(BROKER_FAULTS) };
  });
  if (!isolated) return { ...plan, writers, faults: [...plan.faults, ...faults] };
  const turmoil = Math.max(plan.turmoil, ...faults.map(({ at, ms }) => at + ms));
  return { ...plan, writers, faults, turmoil, rates: NO_RATES, acts: [], lethal: null };
}

/** The same, for the second transport. @param wellTaken its broker refuses none */
export function ofSecond({ key, transactions }: PlannedWriter, wellTaken: boolean): PlannedWriter {
  return {
    transport: SECOND,
    key: key === null ? null : `second ${key}`,
    transactions: transactions.map((transaction) => ({
      ...transaction,
      messages: transaction.messages.map((message) => ({
        ...message,
        n: BEHIND + message.n,
        refused: wellTaken ? 0 : message.refused,
      })),
    })),
  };
}

/** One history in seven has payloads of one size, and batches that are full of bytes before they are full of messages. */
export function withBytes(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'sizes');
  if (!random.chance(0.15)) return plan;
  const batchBytes = random.pick([1_024, 2_048, 4_096]);
  return { ...plan, bytes: random.pick([100, 300, 900]), options: { ...plan.options, batchBytes } };
}

/** In one history in eight numbers go back under the relays, once or twice, as by `setval` or TRUNCATE. */
export function withNumbers(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'numbers');
  if (!random.chance(0.125)) return plan;
  const faults = Array.from({ length: random.whole(1, 2) }, (): PlannedFault => {
    const kind = random.pick(['numbers go back', 'table emptied'] as const);
    return { at: random.between(0, plan.turmoil), kind, slot: 0, ms: 0, after: 0 };
  });
  return { ...plan, faults: [...plan.faults, ...faults] };
}

/** In one history in sixteen an instance dies whose leases last a day: the database's clock was ahead when they were written. */
export function withFutureLease(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'future');
  if (!random.chance(1 / 16)) return plan;
  const slot = random.whole(0, plan.relays.length - 1);
  const fault = { at: random.between(0, plan.turmoil), slot, ms: random.between(10, 8_000), after: 0 };
  return { ...plan, faults: [...plan.faults, { ...fault, kind: 'lease in the future' }] };
}

/** In one history in sixteen a replica takes over that does not have the last commits. */
export function withFailover(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'replica');
  if (!random.chance(1 / 16)) return plan;
  const fault = { at: random.between(0, plan.turmoil * 0.9), slot: 0, ms: random.pick([20, 200, 1_500]), after: 0 };
  return { ...plan, faults: [...plan.faults, { ...fault, kind: 'failover' }], lethal: null };
}

/** In one history in eight everything is looked at all the time: what the marks forget is found while the rest is judged. */
export function withScans(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'scans');
  return random.chance(0.125) ? { ...plan, scanEvery: random.pick([200, 1_000]) } : plan;
}

/** In one history in 64 relays have looked at nothing, more than once, before the first message comes. */
export function withLateLoad(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'late load');
  if (!random.chance(1 / 64)) return plan;
  const later = random.between(50_000, 100_000);
  const writers = plan.writers.map((writer) => ({
    ...writer,
    transactions: writer.transactions.map((each, n) => (n === 0 ? { ...each, pause: each.pause + later } : each)),
  }));
  const faults = plan.faults.map((fault) => ({ ...fault, at: fault.at + later }));
  const acts = plan.acts.map((act) => ({ ...act, at: act.at + later }));
  return { ...plan, writers, faults, acts, turmoil: plan.turmoil + later };
}

/** One history in eight has more blocked keys than a relay has room for, as soon as two or three are blocked. */
export function withFewKeys(plan: Plan): Plan {
  const random = Random.of(plan.seed, 'few keys');
  return random.chance(0.125) ? { ...plan, knownKeys: random.pick([1, 1, 2]) } : plan;
}
