import type { Ledger } from '../ledger.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { Result, Failure, Unit } from './batch.types.js';

/** What became of a run of one key: `open`: results are to come; `through`: all of it is published. */
export type RunEnd = 'open' | 'through' | BrokenRun;

export interface BrokenRun {
  readonly published: readonly OutboxMessage[];
  /** The first that failed. It is decided for all of them: the others queue up behind it. */
  readonly failed: OutboxMessage;
  readonly failure: Failure;
}

/** A run of one key is resolved when all of it is, in order: what was published first, then what was not. */
export class RunResults {
  constructor(readonly ledger: Ledger) {}

  answered(unit: Unit, index: number, result: Result): RunEnd {
    unit.results[index] = result;
    unit.left -= 1;
    if (unit.left > 0) return 'open';
    const failedAt = unit.results.findIndex((each) => each?.ok === false);
    return failedAt === -1 ? 'through' : this.break(unit, failedAt);
  }

  private break(unit: Unit, failedAt: number): BrokenRun {
    const { queues, trial } = this.ledger;
    const behind = queues.cut(unit.messages.at(-1) as OutboxMessage);
    const published: OutboxMessage[] = [];
    const unpublished: OutboxMessage[] = [];
    unit.messages.forEach((message, i) => (unit.results[i]?.ok === true ? published : unpublished).push(message));
    // The rest of the run, and what waited, queue up again behind the first that failed.
    const failure = unit.results[failedAt] as Failure;
    for (const message of [...unpublished, ...behind]) this.ledger.accept(message);
    const [failed, ...rest] = unpublished as [OutboxMessage, ...OutboxMessage[]];
    queues.withdraw(failed);
    if (failure.blame !== 'transport') for (const message of rest) trial.markAlone(message);
    return { published, failed, failure };
  }
}
