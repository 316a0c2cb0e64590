import type { DataSource, QueryRunner } from 'typeorm';
import { OutboxTransactionRequiredError } from '../outbox.errors.js';
import type { SqlExecutor } from '../store/executors/executor.js';
import { statement } from '../store/sql.js';
import { boundaryOf } from './boundary.js';
import { depthOf, isAborted, isMysql, isOfServer } from './query-runner.js';
import { tell, type Entry, type TransactionListener } from './transaction-listener.js';
import { TransactionState } from './transaction-state.js';

type Ending = 'commitTransaction' | 'rollbackTransaction';
/** `startTransaction` makes a savepoint here: a write that began before must not end up half inside. */
const WRAPPED = ['startTransaction', 'commitTransaction', 'rollbackTransaction'] as const;
type Wrapped = (typeof WRAPPED)[number];
type Method = (...args: unknown[]) => Promise<unknown>;

/**
 * What we keep of a QueryRunner, one for all outboxes that write through it. In the runner itself: with a WeakMap, the garbage
 * collection of runners, one for each transaction of the application, cost more than the rest of this.
 */
const WATCH = Symbol('nestjs-outbox: watch');
const BEGINS = Symbol('nestjs-outbox: hears beginnings');
interface Watched extends Record<Wrapped | 'query', Method> {
  [WATCH]?: TransactionWatch;
  [BEGINS]?: unknown;
}

/** For the first write of a transaction, or a later one. */
export function watchTransaction(runner: QueryRunner): TransactionWatch {
  watchBeginnings(runner);
  const watch = watchOf(runner);
  // Somebody else's statements went before.
  if (!watch.hears && watch.losesTransactions) watch.state.doubtful = true;
  watch.hear();
  watch.arm();
  return watch;
}

/** A copy of a runner has its own. */
function watchOf(runner: QueryRunner): TransactionWatch {
  const watched = runner as unknown as Watched;
  const known = watched[WATCH];
  return known?.runner === runner ? known : (watched[WATCH] = new TransactionWatch(runner));
}

/**
 * Has the transactions of this DataSource watched from their beginning: one whose ROLLBACK is on its way when the first message
 * is enqueued looks active still, and the message would be committed by itself.
 */
export function watchTransactions(dataSource: DataSource): void {
  if (watchedSources.has(dataSource)) return;
  watchedSources.add(dataSource);
  const own = Object.hasOwn(dataSource, 'createQueryRunner') ? dataSource.createQueryRunner : undefined;
  dataSource.createQueryRunner = function (...args) {
    // Looked up each time: libraries for tests replace it in the class, and put it back.
    const create = own ?? (Object.getPrototypeOf(dataSource) as DataSource).createQueryRunner;
    const runner = create.apply(this, args);
    watchBeginnings(runner);
    return runner;
  };
}
const watchedSources = new WeakSet<DataSource>();

/** For good, and once. */
function watchBeginnings(runner: QueryRunner): void {
  const watched = runner as unknown as Watched;
  if (watched[BEGINS] === runner) return;
  watched[BEGINS] = runner;
  const start = runner.startTransaction;
  // `this` may be a copy of the runner, which has its own transaction.
  runner.startTransaction = function (...isolation) {
    const watch = watchOf(this);
    if (!this.isTransactionActive) watch.state.begin();
    watch.hear();
    return start.apply(this, isolation);
  };
}

/** Statements that both PostgreSQL and MySQL know; outside of a transaction the second one fails. */
const PROBE = ['savepoint outbox_probe', 'release savepoint outbox_probe'].map((sql) =>
  statement(undefined, sql).bind(),
);

/** PostgreSQL's `no_active_sql_transaction`. */
const NO_TRANSACTION = '25P01';

/**
 * Wraps the `query` of one QueryRunner from its first transaction on, and the transaction methods from the first enqueue of a
 * transaction until it ends. Not a TypeORM subscriber: those are lost when a DataSource is initialized again, skipped when another
 * one throws, and can delay or fail a commit.
 *
 * - Every boundary waits for writes that are still in flight: after a ROLLBACK that overtook one, its next statement would
 *   run outside of any transaction; after a SAVEPOINT that did, a rollback would take half of it.
 * - From the moment at which COMMIT or ROLLBACK is sent, nothing is written any more: parallel work of a transaction goes on
 *   when one part of it has failed.
 * - A write asks first whether there still is a transaction, where one may have ended otherwise: on MySQL and MariaDB behind a
 *   statement that failed, or whose answer tells of no transaction; anywhere behind one text of several statements with an end.
 * - Whether it is the end is asked of the runner afterwards, not concluded from success: a failed COMMIT is followed by a
 *   ROLLBACK, a savepoint's release ends nothing, and a subscriber may throw after a COMMIT that succeeded.
 */
export class TransactionWatch {
  /** @internal */ entries: Entry[] = [];
  /** @internal */ readonly inFlight = new Set<Promise<unknown>>();
  /** @internal */ last: Promise<unknown> = Promise.resolve();
  /** @internal */ readonly state = new TransactionState();
  /** @internal How to undo what is wrapped now. */
  readonly wrapped = new Map<Wrapped, () => boolean>();
  /** PostgreSQL said no to a statement, and nobody went back to a savepoint since. @internal */ failed = false;
  /** What was sent last ends a transaction that PostgreSQL will not commit: it answers COMMIT with ROLLBACK, and no error. */
  aborted = false;
  /** Every statement of the runner comes by here. */
  hears = false;
  /** @internal */ readonly losesTransactions: boolean;

  constructor(readonly runner: QueryRunner) {
    this.losesTransactions = isMysql(runner);
  }

  /**
   * Runs a write, after those before it; no boundary of the transaction passes it. The ids that it returns are reported to
   * the listener.
   */
  async write<T>(
    listener: TransactionListener,
    work: () => Promise<{ result: T; ids: readonly string[] }>,
  ): Promise<T> {
    if (!this.state.isOpen) throw over();
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

  /** The statements of a write. Each is sent only while the transaction that it belongs to is there. */
  guard(executor: SqlExecutor): SqlExecutor {
    const { state } = this;
    if (!this.losesTransactions && !state.doubtful) return executor;
    return {
      run: (sql) =>
        state.alone(async () => {
          await state.settle(() => this.probe(executor));
          return executor.run(sql).catch((error: unknown) => {
            state.doubtful = true;
            throw error;
          });
        }),
    };
  }

  /** @internal */ async probe(executor: SqlExecutor): Promise<void> {
    try {
      for (const sql of PROBE) await executor.run(sql);
    } catch (cause) {
      // PostgreSQL, but for that one: a statement failed, and a savepoint may mend it.
      this.state.ended = this.losesTransactions || (cause as { code?: unknown }).code === NO_TRANSACTION;
      this.state.doubtful = true;
      throw this.state.ended ? over(cause) : cause;
    }
  }

  /** For good: this is what a transaction without a message costs, and an undo would cost more. */
  hear(): void {
    if (this.hears) return;
    this.hears = true;
    const runner = this.runner as unknown as Watched;
    const original = runner.query;
    const pass = (args: unknown[]): Promise<unknown> => this.pass(original, args);
    // A copy of the runner has a copy of this, and no part in our transaction.
    runner.query = function (this: unknown, ...args) {
      return this === runner ? pass(args) : original.apply(this, args);
    };
  }

  /** @internal Wraps what is not wrapped yet. */
  arm(): void {
    for (const name of WRAPPED) if (!this.wrapped.has(name)) this.wrapped.set(name, this.wrap(name));
  }

  /** @internal Resolves when nothing is being written. */
  async quiet(): Promise<void> {
    while (this.inFlight.size > 0) await Promise.allSettled(this.inFlight);
  }

  /** @internal */ async endOf(name: Ending | 'startTransaction', original: Method, args: unknown[]): Promise<unknown> {
    const { runner } = this;
    await this.quiet();
    const wasActive = runner.isTransactionActive;
    try {
      return await original.apply(runner, args);
    } finally {
      if (name !== 'startTransaction') this.ended(name, wasActive);
    }
  }

  /** @internal Once more in front of the statement itself: subscribers of the end may have written. */
  pass(original: Method, args: unknown[]): Promise<unknown> {
    const { state } = this;
    const boundary = boundaryOf(args[0], args[1]);
    if (boundary === undefined && !this.losesTransactions) {
      const answer = original.apply(this.runner, args);
      return this.entries.length === 0 ? answer : answer.catch(this.noted);
    }
    const send = (): Promise<unknown> => {
      if (boundary === 'back') this.failed = false;
      if (boundary === 'end' && this.entries.length > 0) this.aborted = this.failed || isAborted(this.runner);
      return state.send(boundary, () => original.apply(this.runner, args));
    };
    if (boundary !== undefined && this.inFlight.size > 0) return this.quiet().then(send);
    return state.isAlone ? state.others().then(send) : send();
  }

  /** Before the application can send its COMMIT: pg's client learns the transaction's state later than the error. @internal */
  readonly noted = (error: unknown): never => {
    this.failed ||= isOfServer(error);
    throw error;
  };

  /** @internal Returns how to undo it. */
  wrap(name: Wrapped): () => boolean {
    const runner = this.runner as unknown as Watched;
    const own = Object.getOwnPropertyDescriptor(runner, name);
    const original = runner[name];
    const around = (args: unknown[]): Promise<unknown> => this.endOf(name, original, args);
    const wrapper = function (this: unknown, ...args: unknown[]): Promise<unknown> {
      return this === runner ? around(args) : original.apply(this, args);
    };
    runner[name] = wrapper;
    return () => {
      // Somebody wrapped it after us: ours stays in their chain and serves the next transaction.
      if (runner[name] !== wrapper) return false;
      if (own === undefined) delete (runner as Partial<typeof runner>)[name];
      else Object.defineProperty(runner, name, own);
      return true;
    };
  }

  /** @internal */
  ended(ending: Ending, wasActive: boolean): void {
    if (this.runner.isTransactionActive) return this.savepointEnded(ending);
    const { entries, aborted } = this;
    this.entries = [];
    this.failed = this.aborted = false;
    this.state.begin(); // for who begins the next one without our hearing of it
    for (const [name, restore] of this.wrapped) if (restore()) this.wrapped.delete(name);
    tell(entries, ending === 'commitTransaction' && wasActive && !aborted);
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

function over(cause?: unknown): OutboxTransactionRequiredError {
  return new OutboxTransactionRequiredError(
    cause === undefined
      ? 'The transaction is being ended: COMMIT or ROLLBACK was sent.'
      : 'The transaction has ended: the database has rolled the transaction back, as it does after a deadlock, or a statement has committed it.',
    {
      hint:
        cause === undefined
          ? 'Await all parallel work of a transaction before it ends: Promise.all rejects at the first failure, while the others go on.'
          : 'Run the whole transaction again; what commits by itself (CREATE, TRUNCATE, LOCK TABLES) belongs before it.',
      cause,
    },
  );
}
