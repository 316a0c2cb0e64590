import type { Ordering } from './settings.js';
import { KeyChoice, planTransaction, uidOf, type PlannedMessage } from './workload.js';

/** For how many milliseconds a transaction stays open. */
export interface Hold {
  /** It enqueues. */
  readonly before: number;
  /** It enqueues the second half; nothing: all is enqueued at once. */
  readonly between?: number | undefined;
  /** It commits. */
  readonly after: number;
}
export interface Planned {
  readonly n: number;
  readonly messages: readonly PlannedMessage[];
  readonly hold: Hold;
  readonly rollBack: boolean;
}

/** Of what begins for a strict order, that which is a pair of transactions for the same keys. */
const PAIRS = 0.3;
const TWO_CALLS = 0.2;

/** What one life of a writer writes, transaction by transaction. */
export class Planner {
  private transactions = 0;
  private readonly keys: KeyChoice;

  constructor(
    private readonly run: number,
    private readonly ordering: Ordering,
    private readonly random: () => number,
  ) {
    this.keys = new KeyChoice(random);
  }

  /**
   * What begins now: one transaction, or for a strict order two that overlap.
   * @param room how many may begin
   */
  next(room: number): Planned[] {
    if (this.ordering === 'key' || room < 2 || this.random() >= PAIRS) return [this.one()];
    const [late, early] = chooseOverlap(this.random);
    const first = this.one(late);
    return [first, this.one(early, first)];
  }

  private one(hold?: Hold, twin?: Planned): Planned {
    const n = (this.transactions += 1);
    const { run, keys, random } = this;
    return {
      n,
      messages: twin === undefined ? planTransaction(run, n, keys, random) : planTwin(run, n, twin.messages),
      hold: hold ?? chooseHold(random),
      rollBack: random() < 0.1,
    };
  }
}

/** For the same keys, from the last to the first: where both enqueue twice, each may wait for the other. */
function planTwin(run: number, transaction: number, twin: readonly PlannedMessage[]): PlannedMessage[] {
  return twin.map((_, index) => {
    const { key, transports } = twin[twin.length - 1 - index] as PlannedMessage;
    return { uid: uidOf(run, transaction, index), key, transports, kind: 'plain' };
  });
}

/** 0 to 60, most of them short. */
function chooseHold(random: () => number): Hold {
  const hold = Math.floor(random() * random() * 60);
  return random() < 0.3 ? { before: hold, after: 0 } : { before: 0, after: hold };
}

/** Of two that begin together: the first enqueues first and, where the second need not wait for it, commits last. */
function chooseOverlap(random: () => number): readonly [Hold, Hold] {
  const between = random() < TWO_CALLS ? 10 : undefined;
  const before = 5 + Math.floor(random() * 10);
  return [
    { before: 0, between, after: 30 + Math.floor(random() * 50) },
    { before, between, after: 0 },
  ];
}
