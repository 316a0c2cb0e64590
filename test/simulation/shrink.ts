import type { Plan, PlannedTransaction, PlannedWriter } from './plan.js';
import { play, type Outcome } from './scenario.js';

export interface Shrunk {
  readonly outcome: Outcome;
  readonly tried: number;
  /** Parts of the plan before and after: messages, relays, faults, acts. */
  readonly parts: { readonly from: number; readonly to: number };
}

/**
 * Cuts a plan down to what still breaks the same invariant: drops relays, writers, transactions, messages, acts and faults,
 * in halves first, then one by one, until nothing more can go or the time is over.
 * @param seconds at most
 */
export async function shrink(broken: Outcome, seconds: number): Promise<Shrunk> {
  const shrinker = new Shrinker(broken, performance.now() + seconds * 1_000);
  await shrinker.run();
  const outcome = await play(shrinker.plan, true);
  return {
    outcome,
    tried: shrinker.tried,
    parts: { from: partsOf(broken.plan, broken.drawn), to: partsOf(shrinker.plan) },
  };
}

type Cut<T> = (plan: Plan, kept: readonly T[]) => Plan;

class Shrinker {
  plan: Plan;
  tried = 0;
  readonly target: string;

  constructor(
    broken: Outcome,
    readonly deadline: number,
  ) {
    this.plan = { ...broken.plan, only: new Set(broken.drawn) };
    this.target = invariantOf(broken);
  }

  async run(): Promise<void> {
    for (let before = Infinity; partsOf(this.plan) < before && !this.late;) {
      before = partsOf(this.plan);
      await this.cut(
        ({ faults }) => faults,
        (plan, faults) => ({ ...plan, faults }),
      );
      await this.cut(
        ({ only }) => [...(only ?? [])],
        (plan, only) => ({ ...plan, only: new Set(only) }),
      );
      await this.cut(
        ({ acts }) => acts,
        (plan, acts) => ({ ...plan, acts }),
      );
      await this.cut(
        ({ relays }) => relays,
        (plan, relays) => ({ ...plan, relays }),
      );
      await this.cut(
        ({ writers }) => writers,
        (plan, writers) => ({ ...plan, writers }),
      );
      for (let w = 0; w < this.plan.writers.length; w += 1) await this.cutWriter(w);
    }
    await this.calmDown();
  }

  /** @internal */ get late(): boolean {
    return performance.now() > this.deadline;
  }

  /** @internal */ async cutWriter(w: number): Promise<void> {
    const writer = (plan: Plan): PlannedWriter => plan.writers[w] as PlannedWriter;
    const change = (plan: Plan, transactions: readonly PlannedTransaction[]): Plan => ({
      ...plan,
      writers: plan.writers.map((each, i) => (i === w ? { ...each, transactions } : each)),
    });
    await this.cut((plan) => writer(plan).transactions, change);
    for (let t = 0; t < writer(this.plan).transactions.length; t += 1) {
      await this.cut(
        (plan) => writer(plan).transactions[t]?.messages ?? [],
        (plan, messages) =>
          change(
            plan,
            writer(plan).transactions.map((each, i) => (i === t ? { ...each, messages } : each)),
          ),
      );
    }
  }

  /** Fewer of a list: first its halves, then quarters, down to single ones. @internal */
  async cut<T>(list: (plan: Plan) => readonly T[], rebuild: Cut<T>): Promise<void> {
    for (let size = list(this.plan).length; size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let at = 0; at < list(this.plan).length && !this.late;) {
        const all = list(this.plan);
        const kept = [...all.slice(0, at), ...all.slice(at + size)];
        if (!(await this.still(rebuild(this.plan, kept)))) at += size;
      }
    }
  }

  /** What is slow by chance becomes quick, and the rest of the turmoil goes. @internal */
  async calmDown(): Promise<void> {
    await this.still({ ...this.plan, rates: { ...this.plan.rates, slow: 0 } });
    const last = Math.max(0, ...this.plan.faults.map(({ at }) => at), ...this.plan.acts.map(({ at }) => at));
    await this.still({ ...this.plan, turmoil: Math.min(this.plan.turmoil, last + 100) });
  }

  /** Takes the plan when it still breaks the invariant. @internal */
  async still(plan: Plan): Promise<boolean> {
    if (this.late || plan.relays.length === 0) return false;
    this.tried += 1;
    const { violations } = await play(plan);
    if (!violations.some((text) => text.startsWith(`${this.target}:`))) return false;
    this.plan = plan;
    return true;
  }
}

const invariantOf = ({ violations }: Outcome): string => violations[0]?.split(':')[0] ?? '';

export function partsOf({ relays, writers, acts, faults, only }: Plan, drawn: readonly string[] = []): number {
  const messages = writers.flatMap(({ transactions }) => transactions).flatMap((each) => each.messages);
  return relays.length + acts.length + faults.length + messages.length + (only?.size ?? drawn.length);
}
