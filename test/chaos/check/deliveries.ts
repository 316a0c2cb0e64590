import type { Timing } from './bounds.js';
import type { Failovers } from './failovers.js';
import type { FaultLog, FaultSpan } from './faults.js';
import { LATER, POISON, type Ledger } from './ledger.js';
import type { Receipts } from './receipts.js';
import type { Violations } from './violations.js';

/** Microseconds from a delivery within which any relay has written its receipt down, and in which it must have. */
const SETTLE = 3_000_000;
const SLOWEST_SETTLE = 15_000_000;
/** After a fault healed, for what was under way to time out and to be done again. */
const AFTERMATH = 6_000_000;

interface Delivery {
  readonly transport: number;
  readonly time: number;
  readonly run: number;
  readonly redelivered: boolean;
}

/** One delivery after the other, as the consumer saw them: invented, repeated, and what the repetition came from. */
export class Deliveries {
  published = 0;
  redelivered = 0;
  duplicates = 0;
  /** Of these, by a failover that lost receipts: as many as there were, whatever a relay holds. */
  ofFailovers = 0;
  staleDuplicates = 0;
  /** Milliseconds from the commit to the first sighting, of what was committed while nothing was wrong. */
  readonly calmLatencies: number[] = [];
  /** Entries in the order of their first sightings. */
  readonly order: number[] = [];
  /** Copies that one fault made at one relay, by fault, relay and transport. */
  private readonly copies = new Map<string, number>();
  mostPerFault = 0;
  /** Latest begin of a transaction of which a message of this key was seen. */
  private readonly newest = new Map<number, number>();

  constructor(
    private readonly ledger: Ledger,
    private readonly faults: FaultLog,
    private readonly failovers: Failovers,
    private readonly receipts: Receipts,
    private readonly broken: Violations,
  ) {}

  take(delivery: Delivery, uids: readonly number[], timing: Timing): void {
    for (const uid of uids) this.one(delivery, uid, timing);
  }

  private one({ transport, time, run, redelivered }: Delivery, uid: number, timing: Timing): void {
    const { ledger, failovers, broken } = this;
    const entry = ledger.find(uid, transport);
    if (entry < 0 || ledger.kind.get(entry) >= POISON) {
      this.published += 1;
      if (entry < 0 && failovers.mayHaveBeen(uid, time, timing)) failovers.published += 1;
      else broken.add('ghosts', `${uid} on transport ${transport}, published by relay ${run} at ${time}`);
      return;
    }
    if (ledger.first.get(entry) < 0) this.first(entry, time);
    else if (redelivered) {
      // The broker's own repetition, after a connection of the consumer broke.
      this.redelivered += 1;
      return;
    } else this.copy(entry, uid, time, run);
    this.published += 1;
    ledger.seenAt.set(entry, time);
    ledger.seenFrom.set(entry, run);
  }

  private first(entry: number, time: number): void {
    const { ledger } = this;
    ledger.first.set(entry, this.order.push(entry) - 1);
    const ended = ledger.endedOf(entry);
    if (ledger.kind.get(entry) === LATER) return;
    const place = placeOf(ledger, entry);
    const began = ledger.beganOf(entry);
    if (began > (this.newest.get(place) ?? -1)) this.newest.set(place, began);
    if (ended < Infinity && this.faults.isCalm(ended)) this.calmLatencies.push(Math.max(0, time - ended) / 1_000);
  }

  /**
   * A repetition is explained by a fault at the relay whose copy came before, about the time when it should have written
   * its receipt down; or by one at the relay that sent this copy, which held it back.
   */
  private copy(entry: number, uid: number, time: number, run: number): void {
    const { ledger, faults, receipts, broken } = this;
    this.duplicates += 1;
    const [beforeAt, beforeRun] = [ledger.seenAt.get(entry), ledger.seenFrom.get(entry)];
    if (ledger.endedOf(entry) < (this.newest.get(placeOf(ledger, entry)) ?? -1)) this.staleDuplicates += 1;
    const transport = ledger.transport.get(entry);
    const text = `${uid} on transport ${transport}, relay ${beforeRun} at ${beforeAt}, relay ${run} at ${time}`;
    const slow = Math.min(receipts.by(beforeRun, transport, beforeAt), beforeAt + SLOWEST_SETTLE);
    const [since, until] = [beforeAt - AFTERMATH, Math.max(beforeAt + SETTLE, slow)];
    const before = faults.between(since, until, isFailover) ?? faults.touching(beforeRun, since, until);
    const fault = before ?? faults.touching(run, time - AFTERMATH, time);
    if (fault === undefined) broken.add('unexplainedDuplicates', text);
    else this.attribute(fault, before === undefined ? run : beforeRun, transport);
    // Until its receipt was written down, too.
    if (faults.isCalm(beforeAt) && faults.isCalm(until)) broken.add('calmDuplicates', text);
  }

  private attribute(fault: FaultSpan, run: number, transport: number): void {
    if (isFailover(fault)) {
      this.ofFailovers += 1;
      return;
    }
    const name = `${fault.id}/${run}/${transport}`;
    const count = (this.copies.get(name) ?? 0) + 1;
    this.copies.set(name, count);
    this.mostPerFault = Math.max(this.mostPerFault, count);
  }
}

const isFailover = ({ kind }: FaultSpan): boolean => kind === 'database-failover';

/** One number for a key of a transport. */
export function placeOf(ledger: Ledger, entry: number): number {
  return ledger.key.get(entry) * 2 + ledger.transport.get(entry);
}
