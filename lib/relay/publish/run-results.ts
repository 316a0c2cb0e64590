import type { Ledger } from '../ledger.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { PublishFailure, PublishResult } from '../../transports/transport.js';
import type { Unit } from './batch.types.js';

/** Where a run came from, and what follows from its results. */
interface RunOrigin {
  readonly events: {
    readonly results: { published(message: OutboxMessage): void; through(last: OutboxMessage): void };
  };
  resolve(message: OutboxMessage, failure: PublishFailure): void;
}

/** A run of one key is resolved when all of it is, in order: what was published first, then what was not. */
export class RunResults {
  constructor(
    readonly ledger: Ledger,
    readonly origin: RunOrigin,
  ) {}

  resolve(unit: Unit, index: number, result: PublishResult): void {
    unit.results[index] = result;
    unit.left -= 1;
    if (unit.left > 0) return;
    const failedAt = unit.results.findIndex((each) => each?.ok === false);
    if (failedAt === -1) {
      for (const message of unit.messages) this.origin.events.results.published(message);
      this.origin.events.results.through(unit.messages.at(-1) as OutboxMessage);
      return;
    }
    this.resolveBroken(unit, failedAt);
  }

  /** @internal */ resolveBroken(unit: Unit, failedAt: number): void {
    const { queues, flight } = this.ledger;
    const behind = queues.cut(unit.messages.at(-1) as OutboxMessage);
    const unpublished: OutboxMessage[] = [];
    unit.messages.forEach((message, i) => {
      if (unit.results[i]?.ok === true) this.origin.events.results.published(message);
      else unpublished.push(message);
    });
    // The rest of the run, and what waited, queue up again behind the first that failed; `failed` decides for all of them.
    const failure = unit.results[failedAt] as PublishFailure;
    for (const message of [...unpublished, ...behind]) this.ledger.accept(message);
    const [first, ...rest] = unpublished as [OutboxMessage, ...OutboxMessage[]];
    queues.withdraw(first);
    if (failure.blame !== 'transport') for (const message of rest) flight.markAlone(message);
    this.origin.resolve(first, failure);
  }
}
