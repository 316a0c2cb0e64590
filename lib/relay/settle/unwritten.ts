import type { OutboxMessage } from '../../outbox-message.js';
import type { GateOf } from '../order/key-queues.js';
import type { Decided } from './settler.js';

/** What was decided about messages that failed, and is not written: the store does not see it yet. */
export class Unwritten {
  readonly all = new Set<Decided>();
  /** Transitions that block their key, by key. */
  readonly pending = new Map<string, number>();
  /**
   * Of these, keys that a failure closed, or of which taken rows are given back: the store would let others past them, or
   * the same once more, which the transition, written again after a lost answer, would take for the row that it is about.
   */
  readonly closed = new Map<string, number>();
  /** Rows of the parked table that are given back, likewise. */
  readonly rows = new Set<string>();

  constructor(readonly gateOf: GateOf) {}

  add(decided: Decided): void {
    this.all.add(decided);
    const { parkedId } = decided.message;
    if (parkedId !== null) this.rows.add(parkedId);
    this.count(decided, 1);
  }

  /** It was written, or is void. */
  delete(decided: Decided): void {
    this.all.delete(decided);
    const { parkedId } = decided.message;
    if (parkedId !== null) this.rows.delete(parkedId);
    this.count(decided, -1);
  }

  /** The messages of these buckets. */
  *of(buckets: ReadonlySet<number>): Generator<OutboxMessage> {
    for (const { message } of this.all) if (buckets.has(message.bucket)) yield message;
  }

  private count(decided: Decided, by: number): void {
    const key = decided.blocks ? this.gateOf(decided.message) : null;
    if (key === null) return;
    count(this.pending, key, by);
    if (closes(decided)) count(this.closed, key, by);
  }
}

/** More can come of a key whose first row failed, or is given back; of what is parked behind it there may be no end. */
export const closes = ({ message, state }: Pick<Decided, 'message' | 'state'>): boolean =>
  message.parkedId !== null || state !== 'blocked';

function count(counts: Map<string, number>, key: string, by: number): void {
  const sum = (counts.get(key) ?? 0) + by;
  if (sum > 0) counts.set(key, sum);
  else counts.delete(key);
}
