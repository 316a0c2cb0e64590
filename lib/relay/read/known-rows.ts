import { compareSeq, type OutboxMessage } from '../../outbox-message.js';

type Row = Pick<OutboxMessage, 'seq' | 'id'>;
/** No table numbers beyond it. */
const HIGHEST = (2n ** 64n).toString();

/**
 * Rows of the ready table that were read and are not settled: a read that returns them again returns nothing new. Known
 * by number and id. After a failover that lost commits a number is given out again, while the message that had it is still
 * being published.
 */
export class KnownRows {
  readonly ids = new Map<string, string>();
  /** Ids of those whose number another row has by now; nearly always empty. */
  private readonly replaced = new Set<string>();
  /** Numbers that were read before numbers may have gone back: who has them now, only the row itself tells. */
  private readonly unverified = new Set<string>();
  /** Settled while a read was under way, which may still return them. */
  settledMeanwhile: Row[] = [];

  get size(): number {
    return this.ids.size + this.replaced.size;
  }

  /** Up to here no number is known. Looks at all of them. */
  get below(): string {
    let lowest = HIGHEST;
    for (const seq of this.ids.keys()) if (compareSeq(seq, lowest) < 0) lowest = seq;
    return (BigInt(lowest) - 1n).toString();
  }

  /** Whether a row that a read returned was not read before. */
  isNew({ seq, id }: Row): boolean {
    if (this.ids.get(seq) !== id) return this.replaced.size === 0 || !this.replaced.has(id);
    if (this.unverified.size > 0) this.unverified.delete(seq);
    return false;
  }

  /** Whether what stands at a number need not be looked at. */
  has(seq: string): boolean {
    return this.ids.has(seq) && (this.unverified.size === 0 || !this.unverified.has(seq));
  }

  add({ seq, id }: Row): void {
    if (this.unverified.size > 0) {
      const before = this.ids.get(seq);
      if (before !== undefined && before !== id) this.replaced.add(before);
      this.unverified.delete(seq);
    }
    this.ids.set(seq, id);
  }

  /** @returns whether it was known */
  delete({ seq, id }: Row): boolean {
    if (this.ids.get(seq) !== id) return this.replaced.delete(id);
    this.unverified.delete(seq);
    return this.ids.delete(seq);
  }

  /** From now on a number alone proves nothing. */
  distrust(): void {
    for (const seq of this.ids.keys()) this.unverified.add(seq);
  }

  /** The read that may have returned them is over. */
  forgetSettled(): void {
    for (const row of this.settledMeanwhile) this.delete(row);
    this.settledMeanwhile = [];
  }
}
