import { Deadline } from '../deadline.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { PublishContext, PublishFailure, PublishResult } from '../transport.js';
import { blameFor } from '../amqp/blame.js';

export interface CallOptions {
  /** Milliseconds. */
  readonly timeout: number;
  /** Whether several messages of a key are out at once. */
  readonly pipelined: boolean;
  /** Called once, at the deadline or when the caller aborts, unless everything is known by then. */
  expire(call: PublishCall, reason: unknown): void;
}

/** One `publish` on its way: what was sent of it, and what is known of each message. */
export class PublishCall {
  /** Of the next message that is sent. */
  cursor = 0;
  /** Sent, and no result yet. */
  inFlight = 0;
  /** The broker may close the channel for one of its messages: each goes while nothing else is unconfirmed. */
  isCareful = false;
  readonly deadline: Deadline;
  readonly done: Promise<readonly PublishResult[]>;
  private readonly results: (PublishResult | undefined)[];
  private missing: number;
  private readonly finish: (results: readonly PublishResult[]) => void;
  /** the messages of a key in the batch, when there can be several */
  private readonly runs: Map<string, KeyRun> | undefined;

  constructor(
    readonly batch: readonly OutboxMessage[],
    readonly context: PublishContext,
    { timeout, pipelined, expire }: CallOptions,
  ) {
    this.results = new Array<PublishResult | undefined>(batch.length).fill(undefined);
    this.missing = batch.length;
    let finish!: typeof this.finish;
    this.done = new Promise((resolve) => (finish = resolve));
    this.finish = finish;
    this.runs = pipelined ? runsOf(batch) : undefined;
    this.deadline = new Deadline(context.signal, timeout);
    this.deadline.onPass(() => expire(this, context.signal.aborted ? context.signal.reason : undefined));
  }

  get settled(): boolean {
    return this.missing === 0;
  }

  /** The first result of a message counts. */
  set(index: number, result: PublishResult): void {
    if (this.results[index] !== undefined) return;
    const run = this.runOf(index);
    if (run === undefined) this.conclude(index, result);
    else run.set(this, index, result);
  }

  /** Everything without a result gets this one. */
  fail(failure: PublishFailure): void {
    for (let index = 0; index < this.batch.length && this.missing > 0; index++) this.set(index, failure);
  }

  /** Whether a predecessor of the same key failed, so that the message must not be sent. */
  isOvertaking(index: number): boolean {
    return this.runOf(index)?.failed === true;
  }

  /** plain SQL can give rows the key `''`, which is a key; without one a message is in no run */
  private runOf(index: number): KeyRun | undefined {
    if (this.runs === undefined) return undefined;
    const { key } = this.batch[index]!;
    return key === null ? undefined : this.runs.get(key);
  }

  conclude(index: number, result: PublishResult): void {
    if (this.results[index] !== undefined) return;
    this.results[index] = result;
    this.missing -= 1;
    try {
      this.context.report(index, result);
    } catch {
      // A report that throws is its owner's bug, and this runs inside amqplib's reader: the array below has the result.
    }
    if (this.missing > 0) return;
    this.deadline.dispose();
    this.finish(this.results as readonly PublishResult[]);
  }
}

/**
 * The messages of one key in one batch. Results are given in order: once one failed, the rest fails too, although the
 * broker may have taken some of them. Published again after the failed one, they are seen twice but not left out of order.
 */
class KeyRun {
  failed = false;
  readonly indexes: number[] = [];
  readonly early = new Map<number, PublishResult>();
  next = 0;

  set(call: PublishCall, index: number, result: PublishResult): void {
    if (!this.early.has(index)) this.early.set(index, result);
    for (let known; (known = this.early.get(this.indexes[this.next]!)) !== undefined; this.next++) {
      call.conclude(this.indexes[this.next]!, this.failed && known.ok ? blameFor({ kind: 'overtaking' }) : known);
      if (!known.ok) this.failed = true;
    }
  }
}

/** Only keys with several messages need a run. */
function runsOf(batch: readonly OutboxMessage[]): Map<string, KeyRun> | undefined {
  const runs = new Map<string, KeyRun>();
  batch.forEach(({ key }, index) => {
    if (key === null) return;
    const run = runs.get(key) ?? new KeyRun();
    run.indexes.push(index);
    runs.set(key, run);
  });
  for (const [key, run] of runs) if (run.indexes.length === 1) runs.delete(key);
  return runs.size === 0 ? undefined : runs;
}
