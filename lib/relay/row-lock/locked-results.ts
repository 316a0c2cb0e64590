import type { OutboxMessage } from '../../outbox-message.js';
import type { LockedOutcome, LockedReport, ReparkEntry } from '../../store/parked-store.js';
import type { ParkEntry } from '../../store/ready-store.js';
import { parkEntry, reparkEntry, type Transition } from '../settle/settler.js';
import { Failures } from '../settle/tell.js';

/** What became of the rows of one transaction under row locks: written as it commits, and told when that is done. */
export class LockedResults implements LockedOutcome {
  readonly published: OutboxMessage[] = [];
  readonly parked: ParkEntry[] = [];
  readonly reparked: ReparkEntry[] = [];
  readonly failures = new Failures();
  private readonly transitions = new Map<unknown, Transition>();

  park(transition: Transition): void {
    const isParked = transition.message.parkedId !== null;
    const entry = isParked ? reparkEntry(transition) : parkEntry(transition);
    if ('parkedId' in entry) this.reparked.push(entry);
    else this.parked.push(entry);
    this.transitions.set(entry, transition);
  }

  /** After the commit. What the database refused did not happen. */
  written(refused: LockedReport['refused']): {
    readonly published: readonly OutboxMessage[];
    readonly transitions: readonly Transition[];
  } {
    const left = new Set<unknown>(refused.map(({ entry }) => entry));
    const isWritten = (entry: unknown): boolean => !left.has(entry);
    const entries = [...this.transitions.keys()].filter(isWritten);
    return {
      published: this.published.filter(isWritten),
      transitions: entries.map((entry) => this.transitions.get(entry) as Transition),
    };
  }

  /** @param entry of this outcome */
  messageOf(entry: unknown): OutboxMessage {
    return this.transitions.get(entry)?.message ?? (entry as OutboxMessage);
  }
}
