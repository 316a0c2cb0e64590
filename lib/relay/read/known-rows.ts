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
  private readonly displaced = new Set<string>();
  /** Numbers that were read before numbers may have gone back: who has them now, only the row itself tells. */
  private readonly doubted = new Set<string>();
  /** Settled while a read was under way, which may still return them. */
  lingering: Row[] = [];

  get size(): number {
    return this.ids.size + this.displaced.size;
  }

  /** Up to here no number is known. Looks at all of them. */
  get below(): string {
    let lowest = HIGHEST;
    for (const seq of this.ids.keys()) if (compareSeq(seq, lowest) < 0) lowest = seq;
    return (BigInt(lowest) - 1n).toString();
  }

  /** Whether a row that a read returned was not read before. */
  isNew({ seq, id }: Row): boolean {
    if (this.ids.get(seq) !== id) return this.displaced.size === 0 || !this.displaced.has(id);
    if (this.doubted.size > 0) this.doubted.delete(seq);
    return false;
  }

  /** Whether what stands at a number need not be looked at. */
  has(seq: string): boolean {
    return this.ids.has(seq) && (this.doubted.size === 0 || !this.doubted.has(seq));
  }

  add({ seq, id }: Row): void {
    if (this.doubted.size > 0) {
      const before = this.ids.get(seq);
      if (before !== undefined && before !== id) this.displaced.add(before);
      this.doubted.delete(seq);
    }
    this.ids.set(seq, id);
  }

  /** @returns whether it was known */
  delete({ seq, id }: Row): boolean {
    if (this.ids.get(seq) !== id) return this.displaced.delete(id);
    this.doubted.delete(seq);
    return this.ids.delete(seq);
  }

  /** From now on a number alone proves nothing. */
  doubt(): void {
    for (const seq of this.ids.keys()) this.doubted.add(seq);
  }

  /** The read that may have returned them is over. */
  forgetLingering(): void {
    for (const row of this.lingering) this.delete(row);
    this.lingering = [];
  }
}
