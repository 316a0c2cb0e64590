import { takeoverWithin, type Timing } from './bounds.js';
import type { FaultLog } from './faults.js';
import { transactionOf } from './ledger.js';
import type { Violations } from './violations.js';

/** Microseconds that a COMMIT may be on its way without an answer, when the server that would give it is lost. */
const IN_DOUBT = 15_000_000;

interface Lossy {
  readonly from: number;
  readonly to: number;
}
interface Gone {
  readonly called: number;
  ended: number;
}

/**
 * What a failover to an asynchronous replica may do, and no more: transactions vanish as a whole, with their messages, of which the COMMIT
 * had not returned when the replica had everything for the last time, and was called before the replica took over. Of their messages some
 * may have been published, until the relays know, within a takeover. Receipts vanish, so that messages are published again. Leases vanish,
 * so that two relays may have a bucket for what is left of a lease.
 */
export class Failovers {
  readonly lossy: Lossy[] = [];
  /** Messages without a transaction that a dead-letter hook was told of. */
  readonly told: { readonly run: number; readonly uid: number }[] = [];
  published = 0;
  /** Of those that did not commit, as far as the end shows. */
  private readonly gone = new Map<number, Gone>();

  constructor(
    private readonly faults: FaultLog,
    private readonly broken: Violations,
  ) {}

  called(transaction: number, called: number): void {
    this.gone.set(transaction, { called, ended: Infinity });
  }

  returned(transaction: number, ended: number): void {
    const gone = this.gone.get(transaction);
    if (gone === undefined) this.gone.set(transaction, { called: ended, ended });
    else gone.ended = ended;
  }

  /** Whether a relay may publish what is not its own: the lease that it took is not there any more. */
  mayForget(time: number, { lease }: Timing): boolean {
    return this.lossy.some(({ from, to }) => from <= time && time <= to + lease * 1_000);
  }

  /** Whether it may have been seen at that time, without its transaction. */
  mayHaveBeen(uid: number, time: number, timing: Timing): boolean {
    const lossy = this.lostIn(transactionOf(uid));
    if (lossy === undefined || time < lossy.from) return false;
    const isLate = time > lossy.to + takeoverWithin(timing);
    // What a broker has, or a connection to it, may come whenever that comes back.
    return !isLate || this.faults.between(lossy.to, time, ({ kind }) => kind.startsWith('broker')) !== undefined;
  }

  judge(): { failovers?: number; vanishedCommits?: number; vanishedPublished?: number } {
    let vanishedCommits = 0;
    for (const [transaction, { ended }] of this.gone) {
      if (ended === Infinity) continue;
      if (this.lostIn(transaction) !== undefined) vanishedCommits += 1;
      else this.broken.add('lost', `transaction ${transaction}, whose COMMIT returned at ${ended}, is not there`);
    }
    for (const { run, uid } of this.told) {
      if (this.lostIn(transactionOf(uid)) === undefined)
        this.broken.add('wrongDeadLetters', `relay ${run} told of ${uid}, which did not commit`);
    }
    if (this.lossy.length === 0) return {};
    return { failovers: this.lossy.length, vanishedCommits, vanishedPublished: this.published };
  }

  private lostIn(transaction: number): Lossy | undefined {
    const gone = this.gone.get(transaction);
    if (gone === undefined) return undefined;
    const { called, ended } = gone;
    return this.lossy.find(({ from, to }) => called <= to && ended >= from && called > from - IN_DOUBT);
  }
}
