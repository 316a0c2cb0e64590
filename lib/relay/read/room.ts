import { weightOf } from '../../message/unread-payload.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { ResolvedOptions } from '../../outbox.options.js';

/** Rows of the first read, and of every one after a read that did not come back full. */
const FIRST_READ = 100;

/** Batches that are read while others are out. */
const AHEAD = 2;

/** Messages that could not be parked, and those of their keys behind them, or not settled: so many of them take no room. */
const MOST_QUARANTINED = 10_000;

/** How much of one transport may be in memory, and how much of that is taken. */
export class Room {
  readLimit = FIRST_READ;
  averageBytes = 1_000;

  constructor(
    readonly bounds: Pick<ResolvedOptions, 'batchSize' | 'batchesInFlight' | 'batchBytes'>,
    readonly ledger: { readonly held: number } = { held: 0 },
    /** Of those that are held, how many cannot be written: they must not keep the others from being read. */
    readonly quarantined: () => number = () => 0,
    /** Memory holds what is out, and nothing is read ahead. */
    readonly isTight: () => boolean = () => false,
  ) {}

  /** Messages in memory: read, and not yet settled or given back. */
  get held(): number {
    return this.ledger.held;
  }

  /** Messages that may still be read before memory's bound is reached. */
  get left(): number {
    const { batchSize, batchesInFlight, batchBytes } = this.bounds;
    const batches = batchesInFlight + (this.isTight() ? 0 : AHEAD);
    const byBytes = Math.floor((batchBytes * batches) / this.averageBytes);
    const held = this.held - Math.min(MOST_QUARANTINED, this.quarantined());
    return Math.min(batchSize * batches, Math.max(1, byBytes)) - held;
  }

  /** Nothing is in memory but what cannot be written. */
  get empty(): boolean {
    return this.held === this.quarantined();
  }

  /** Some more for parked ones: under a backlog that always fills the room, retries would never find any. */
  get leftForParked(): number {
    return Math.min(this.left + FIRST_READ, this.bounds.batchSize);
  }

  /** Reads start small and double while they come back full. */
  adapt(messages: readonly OutboxMessage[], more: boolean): void {
    this.readLimit = more ? Math.min(this.bounds.batchSize, this.readLimit * 2) : FIRST_READ;
    if (messages.length > 0) this.averageBytes = Math.max(100, this.mean(messages), this.averageBytes * 0.9);
  }

  /** With what is still in the database. None counts for more than a batch of its own: each batch must find one. */
  private mean(messages: readonly OutboxMessage[]): number {
    let sum = 0;
    for (const message of messages) sum += Math.min(weightOf(message), this.bounds.batchBytes);
    return sum / messages.length;
  }
}
