import type { DataSource, QueryRunner } from 'typeorm';
import { OutboxTransactionRequiredError } from '../outbox.errors.js';
import type { SqlExecutor } from '../store/executors/executor.js';
import { statement } from '../store/sql.js';
import { boundaryOf, isEnd, savepointOf, type Boundary } from './boundary.js';
import { isAborted, isMysql, isOfServer } from './query-runner.js';
import { tell, type TransactionListener } from './transaction-listener.js';
import { TransactionState } from './transaction-state.js';
import { WrittenMessages } from './written-messages.js';

const ENDINGS = ['commitTransaction', 'rollbackTransaction'] as const;
type Ending = (typeof ENDINGS)[number];
type Method = (...args: unknown[]) => Promise<unknown>;

/**
 * What we keep of a QueryRunner, one for all outboxes that write through it. In the runner itself: with a WeakMap, the garbage
 * collection of runners, one for each transaction of the application, cost more than the rest of this.
 */
const WATCH = Symbol('nestjs-outbox: watch');
const BEGINS = Symbol('nestjs-outbox: hears beginnings');
interface Watched extends Record<Ending | 'query', Method> {
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
 * Wraps the `query` of one QueryRunner from its first transaction on, and the methods that end one from the first enqueue of a
 * transaction until then. Not a TypeORM subscriber: those are lost when a DataSource is initialized again, skipped when another
 * one throws, and can delay or fail a commit.
 *
 * - Every boundary waits for writes that are still in flight: after a ROLLBACK that overtook one, its next statement would
 *   run outside of any transaction; after a SAVEPOINT that did, a rollback would take half of it, such as a message without
 *   its dedup key. A write that begins when a SAVEPOINT is on its way waits for it, and is inside as a whole.
 * - From the moment at which COMMIT or ROLLBACK is sent, nothing is written any more: parallel work of a transaction goes on
 *   when one part of it has failed.
 * - A write asks first whether there still is a transaction, where one may have ended otherwise: on MySQL and MariaDB behind a
 *   statement that failed, or whose answer tells of no transaction; anywhere behind one text of several statements with an end.
 * - What becomes of messages is told by the answers of COMMIT, ROLLBACK and ROLLBACK TO, whoever sent them, and where none came, by
 *   the runner: a failed COMMIT is followed by a ROLLBACK, and a subscriber may throw after a COMMIT that succeeded.
 */
export class TransactionWatch {
  /** @internal */ readonly written = new WrittenMessages();
  /** @internal */ readonly inFlight = new Set<Promise<unknown>>();
  /** @internal */ last: Promise<unknown> = Promise.resolve();
  /** @internal */ readonly state = new TransactionState();
  /** @internal How to undo what is wrapped now. */
  readonly wrapped = new Map<Ending, () => boolean>();
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
    const isFree = this.inFlight.size === 0 && this.state.saving === undefined;
    const turn = isFree ? work() : Promise.allSettled([this.last, this.state.saved()]).then(work);
    const write = turn.then(({ result, ids }) => {
      if (ids.length > 0) this.written.add({ listener, ids });
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
    for (const name of ENDINGS) if (!this.wrapped.has(name)) this.wrapped.set(name, this.wrap(name));
  }

  /** @internal Resolves when nothing is being written. */
  async quiet(): Promise<void> {
    while (this.inFlight.size > 0) await Promise.allSettled(this.inFlight);
  }

  /** @internal */ async endOf(name: Ending, original: Method, args: unknown[]): Promise<unknown> {
    const { runner } = this;
    await this.quiet();
    const wasActive = runner.isTransactionActive;
    try {
      return await original.apply(runner, args);
    } finally {
      this.ended(name, wasActive);
    }
  }

  /** @internal Once more in front of the statement itself: subscribers of the end may have written. */
  pass(original: Method, args: unknown[]): Promise<unknown> {
    const { state } = this;
    const boundary = boundaryOf(args[0], args[1]);
    const noted = this.written.isEmpty ? undefined : this.noted;
    if (boundary === undefined && !this.losesTransactions) {
      const answer = original.apply(this.runner, args);
      return noted === undefined ? answer : answer.catch(noted);
    }
    const send = (): Promise<unknown> => {
      if (isEnd(boundary) && !this.written.isEmpty) this.aborted = this.failed || isAborted(this.runner);
      const answer = state.send(boundary, () => original.apply(this.runner, args));
      return boundary === undefined ? answer : answer.then((result) => this.answered(boundary, args[0], result), noted);
    };
    if (boundary !== undefined && this.inFlight.size > 0) return this.quiet().then(send);
    return state.isAlone ? state.others().then(send) : send();
  }

  /** @internal Before the application hears of it. */
  answered<T>(boundary: Boundary, text: unknown, result: T): T {
    const { written } = this;
    const name = (): string => savepointOf(String(text));
    if (boundary === 'save') written.saved(name());
    else if (boundary === 'release') written.released(name());
    else if (boundary === 'back') {
      this.failed = false;
      tell(written.wentBack(name()), false);
    } else if (boundary === 'commit') this.tellAll(!this.aborted);
    else if (boundary === 'rollback') this.tellAll(false);
    return result;
  }

  /** @internal */ tellAll(committed: boolean): void {
    this.failed = this.aborted = false;
    tell(this.written.take(), committed);
  }

  /** Before the application can send its COMMIT: pg's client learns the transaction's state later than the error. @internal */
  readonly noted = (error: unknown): never => {
    this.failed ||= isOfServer(error);
    throw error;
  };

  /** @internal Returns how to undo it. */
  wrap(name: Ending): () => boolean {
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
    if (this.runner.isTransactionActive) return; // a savepoint's end
    this.state.begin(); // for who begins the next one without our hearing of it
    for (const [name, restore] of this.wrapped) if (restore()) this.wrapped.delete(name);
    this.tellAll(ending === 'commitTransaction' && wasActive && !this.aborted);
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
