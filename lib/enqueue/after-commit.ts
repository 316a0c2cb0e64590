import type { QueryRunner } from 'typeorm';
import { depthOf } from './query-runner.js';

/** Who wants to know how a transaction ended. Called synchronously; what it throws is dropped. */
export interface TransactionListener {
  committed(ids: readonly string[]): void;
  /** Of a whole transaction, or of a savepoint inside it. */
  rolledBack(ids: readonly string[]): void;
}

interface Entry {
  readonly listener: TransactionListener;
  readonly ids: readonly string[];
  /** Transaction depth at which they were written; falls as savepoints are released. */
  depth: number;
}
type Ending = 'commitTransaction' | 'rollbackTransaction';
/** `startTransaction` makes a savepoint here: a write that began before must not end up half inside. */
const BOUNDARIES = ['startTransaction', 'commitTransaction', 'rollbackTransaction'] as const;
type Boundary = (typeof BOUNDARIES)[number];

/** One per QueryRunner, shared by all outboxes that write through it. */
const watches = new WeakMap<QueryRunner, TransactionWatch>();

export function watchTransaction(runner: QueryRunner): TransactionWatch {
  let watch = watches.get(runner);
  if (watch === undefined) watches.set(runner, (watch = new TransactionWatch(runner)));
  watch.arm();
  return watch;
}

/**
 * Wraps the transaction methods of one QueryRunner from the first enqueue of a transaction until it
 * ends. Not a TypeORM subscriber: those are lost when a DataSource is initialized again, skipped when another one throws, and
 * can delay or fail a commit.
 *
 * - Every boundary waits for writes that are still in flight: after a ROLLBACK that overtook one, its next statement would
 *   run outside of any transaction; after a SAVEPOINT that did, a rollback would take half of it.
 * - Whether it is the end is asked of the runner afterwards, not concluded from success: a failed COMMIT is followed by a
 *   ROLLBACK, a savepoint's release ends nothing, and a subscriber may throw after a COMMIT that succeeded.
 */
export class TransactionWatch {
  /** @internal */ entries: Entry[] = [];
  /** @internal */ readonly inFlight = new Set<Promise<unknown>>();
  /** @internal */ last: Promise<unknown> = Promise.resolve();
  /** @internal How to undo what is wrapped now. */
  readonly wrapped = new Map<Boundary, () => boolean>();

  constructor(readonly runner: QueryRunner) {}

  /**
   * Runs a write, after those before it; no boundary of the transaction passes it. The ids that it returns are reported to
   * the listener.
   */
  async write<T>(
    listener: TransactionListener,
    work: () => Promise<{ result: T; ids: readonly string[] }>,
  ): Promise<T> {
    const depth = depthOf(this.runner) ?? 1;
    const turn = this.inFlight.size === 0 ? work() : this.last.then(work, work);
    const write = turn.then(({ result, ids }) => {
      if (ids.length > 0) this.entries.push({ listener, depth, ids });
      return result;
    });
    this.last = write;
    this.inFlight.add(write);
    try {
      return await write;
    } finally {
      this.inFlight.delete(write);
    }
  }

  /** @internal Wraps what is not wrapped yet. */
  arm(): void {
    for (const name of BOUNDARIES) if (!this.wrapped.has(name)) this.wrapped.set(name, this.wrap(name));
  }

  /** @internal Returns how to undo it. */
  wrap(name: Boundary): () => boolean {
    const { runner } = this;
    const own = Object.getOwnPropertyDescriptor(runner, name);
    const original = runner[name] as (...args: unknown[]) => Promise<void>;
    const wrapper = async (...args: unknown[]): Promise<void> => {
      if (this.inFlight.size > 0) await Promise.allSettled(this.inFlight);
      const wasActive = runner.isTransactionActive;
      try {
        return await original.apply(runner, args);
      } finally {
        if (name !== 'startTransaction') this.ended(name, wasActive);
      }
    };
    runner[name] = wrapper;
    return () => {
      // Somebody wrapped it after us: ours stays in their chain and serves the next transaction.
      if (runner[name] !== wrapper) return false;
      if (own === undefined) delete (runner as Partial<QueryRunner>)[name];
      else Object.defineProperty(runner, name, own);
      return true;
    };
  }

  /** @internal */
  ended(ending: Ending, wasActive: boolean): void {
    if (this.runner.isTransactionActive) return this.savepointEnded(ending);
    const { entries } = this;
    this.entries = [];
    for (const [name, restore] of this.wrapped) if (restore()) this.wrapped.delete(name);
    tell(entries, ending === 'commitTransaction' && wasActive);
  }

  /** @internal */
  savepointEnded(ending: Ending): void {
    const depth = depthOf(this.runner) ?? 1;
    if (ending === 'commitTransaction') {
      for (const entry of this.entries) entry.depth = Math.min(entry.depth, depth);
      return;
    }
    const dropped = this.entries.filter((entry) => entry.depth > depth);
    if (dropped.length === 0) return;
    this.entries = this.entries.filter((entry) => entry.depth <= depth);
    tell(dropped, false);
  }
}

/** Each listener once, with all its ids, in the order of writing. */
function tell(entries: readonly Entry[], committed: boolean): void {
  const byListener = new Map<TransactionListener, string[]>();
  for (const { listener, ids } of entries) {
    const all = byListener.get(listener);
    if (all === undefined) byListener.set(listener, [...ids]);
    else for (const id of ids) all.push(id);
  }
  for (const [listener, ids] of byListener) {
    try {
      if (committed) listener.committed(ids);
      else listener.rolledBack(ids);
    } catch {
      // A hint must never break a transaction that has ended; the relay polls anyway.
    }
  }
}
