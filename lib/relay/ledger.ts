import type { OutboxMessage } from '../outbox-message.js';
import { KeyQueues, type GateOf } from './order/key-queues.js';
import type { Batch } from './publish/batch.types.js';
import { InFlight } from './publish/in-flight.js';
import { Trial } from './publish/trial.js';
import { KnownRows } from './read/known-rows.js';
import type { Decided } from './settle/settler.js';
import { Unwritten } from './settle/unwritten.js';

/**
 * What is in memory of one transport. The entry of a message is the message itself; its `state` says where it stands:
 *
 *   idle ─▶ waiting ─▶ out ─▶ idle: published, or its failure is decided; in memory until the database has written it
 *    ▲        │  ▲      │
 *    │        │  └──────┤ goes once more, by itself or behind what failed of its run
 *    └────────┴─────────┘ given up without blame, to be read again; or its row is somebody else's
 *
 * `leaseLost`: its lease was lost while it was out. `dead`: its failure was its last, and that try may still end well. The ledger does
 * no I/O and tells nobody: what follows from a step is what the step returns.
 */
export class Ledger {
  /** Rows of the ready table that were read and are not settled. */
  readonly known = new KnownRows();
  /** What waits for its turn. */
  readonly queues: KeyQueues;
  /** What is being published. */
  readonly flight = new InFlight();
  /** What of it goes alone. */
  readonly trial = new Trial();
  /** What was decided, and the database does not know yet. */
  readonly unwritten: Unwritten;
  /** Messages in memory: accepted, and not yet settled or given back. */
  held = 0;

  constructor(gateOf: GateOf) {
    this.queues = new KeyQueues(gateOf);
    this.unwritten = new Unwritten(gateOf);
  }

  /** They were read, or taken, and are ours to publish. */
  enter(messages: readonly OutboxMessage[]): void {
    this.held += messages.length;
  }

  /** It waits for its turn. One whose lease was lost stays that until somebody decides about it. */
  accept(message: OutboxMessage): void {
    if (message.state !== 'leaseLost') message.state = 'waiting';
    this.queues.accept(message);
  }

  /** It goes once more, before all others. */
  putBack(message: OutboxMessage): void {
    message.state = 'waiting';
    this.queues.unshift(message);
  }

  begin(batch: Batch): void {
    this.flight.begin(batch);
  }

  /** Takes out everything that waits; what is out keeps its key closed. @returns it, to be forgotten or given back */
  withdraw(which: (bucket: number) => boolean): OutboxMessage[] {
    const waiting = this.queues.drop(({ bucket }) => which(bucket));
    for (const message of this.flight.unresolved(which)) waiting.push(...this.queues.trim(message));
    return waiting;
  }

  /** The leases of these buckets are lost. What was decided and is not written is void: if they are ours again, it is read again. */
  lose(buckets: ReadonlySet<number>): void {
    const isLost = (bucket: number): boolean => buckets.has(bucket);
    this.forget(this.withdraw(isLost));
    for (const [id, bucket] of this.trial.suspects) if (isLost(bucket)) this.trial.suspects.delete(id);
    for (const message of this.flight.unresolved(isLost)) message.state = 'leaseLost';
    for (const message of this.unwritten.of(buckets)) if (message.parkedId === null) this.known.delete(message);
  }

  /** They are not ours any more, or somebody takes them again. */
  forget(messages: readonly OutboxMessage[]): void {
    this.held -= messages.length;
    for (const message of messages) {
      message.state = 'idle';
      if (message.parkedId === null) this.known.delete(message);
      this.trial.clear(message);
    }
  }

  /** A ready row is given up without blame, to be read again. */
  giveUp(message: OutboxMessage): void {
    message.state = 'idle';
    this.held -= 1;
  }

  /** The broker has it; its row is still to be deleted. */
  published(message: OutboxMessage): void {
    message.state = 'idle';
  }

  /** Something was decided about it, which is to be written. What is kept of it until then may be less than the message. */
  decide(message: OutboxMessage, decided: Decided): void {
    message.state = decided.state === 'dead' ? 'dead' : 'idle';
    this.trial.suspects.delete(message.id);
    this.unwritten.add(decided);
  }

  /** It was written, or is void. */
  written(decided: Decided): void {
    this.held -= 1;
    this.unwritten.delete(decided);
  }

  /** The database has written that these are published. */
  settled(messages: readonly OutboxMessage[]): void {
    this.held -= messages.length;
  }

  /** Nothing of this key waits or is out, and no failure of it is on its way to the database. */
  isFree(key: string): boolean {
    return !this.queues.has(key) && !this.unwritten.closed.has(key);
  }
}
