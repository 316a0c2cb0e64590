import { types } from 'node:util';
import type { DataSource, QueryRunner } from 'typeorm';
import { boundaryOf, isEnd, savepointOf, type Boundary } from '../../transaction/sql-boundary.js';
import { bytesSent, isAborted, isMysql, isOfServer } from './query-runner.js';
import { over, rollbackOnly } from '../../transaction/errors.js';
import { tell, tellPerhaps, type Entry, type TransactionListener } from '../../transaction/after-commit.js';
import { TransactionState } from '../../transaction/state.js';
import { WrittenMessages } from '../../transaction/written-messages.js';

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

/** Which of the runner's transactions is open, or was last. */
export function transactionNumber(runner: QueryRunner): number {
  watchBeginnings(runner);
  return watchOf(runner).state.number;
}

/** A copy of a runner has its own. */
function watchOf(runner: QueryRunner): TransactionWatch {
  const one = oneOf(runner);
  const watched = one as unknown as Watched;
  const known = watched[WATCH];
  return known?.runner === one ? known : (watched[WATCH] = new TransactionWatch(one));
}

/** A Proxy of a runner, and the runner behind it, have one transaction: both are the one that their manager has. */
export function oneOf(runner: QueryRunner): QueryRunner {
  const named = (runner.manager as QueryRunner['manager'] | undefined)?.queryRunner;
  const isOne = named !== undefined && named !== runner && (types.isProxy(runner) || types.isProxy(named));
  return isOne ? named : runner;
}

/** @param self what a method of the runner is called on */
function isSame(self: unknown, runner: unknown): boolean {
  return self === runner || (Object(self) === self && oneOf(self as QueryRunner) === runner);
}

/**
 * Has the transactions of this DataSource watched from their beginning: one whose ROLLBACK is on its way when the first message
 * is enqueued looks active still, and the message would be committed by itself.
 * @param created hears of each query runner, in place of an earlier one
 */
export function watchTransactions(dataSource: DataSource, created?: (runner: QueryRunner) => void): void {
  const isWatched = watchedSources.has(dataSource);
  watchedSources.set(dataSource, created);
  if (isWatched) return;
  const own = Object.hasOwn(dataSource, 'createQueryRunner') ? dataSource.createQueryRunner : undefined;
  dataSource.createQueryRunner = function (...args) {
    // Looked up each time: libraries for tests replace it in the class, and put it back.
    const create = own ?? (Object.getPrototypeOf(dataSource) as DataSource).createQueryRunner;
    const runner = create.apply(this, args);
    watchBeginnings(runner);
    watchedSources.get(dataSource)?.(runner);
    return runner;
  };
}
const watchedSources = new WeakMap<DataSource, ((runner: QueryRunner) => void) | undefined>();

/** For good, and once. */
function watchBeginnings(handle: QueryRunner): void {
  const runner = oneOf(handle);
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
 *   statement that failed, whose answer tells of no transaction, or that did not come by here; on PostgreSQL while another one is on
 *   its way, as pg tells in between; anywhere behind one text of several statements with an end.
 * - What becomes of messages is told by the answers of COMMIT, ROLLBACK and ROLLBACK TO, whoever sent them, and where none came, by
 *   the runner: a failed COMMIT is followed by a ROLLBACK, and a subscriber may throw after a COMMIT that succeeded.
 */
export class TransactionWatch {
  /** @internal */ readonly written = new WrittenMessages();
  /** @internal */ readonly inFlight = new Set<Promise<unknown>>();
  /** @internal */ last: Promise<unknown> = Promise.resolve();
  /** @internal */ readonly state: TransactionState;
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
    const perhaps = (): void => tellPerhaps(this.written.entries);
    this.state = new TransactionState(this.losesTransactions ? () => bytesSent(runner) : undefined, perhaps);
  }

  /**
   * Runs a write, after those before it; no boundary of the transaction passes it. The ids that it returns are reported to
   * the listener.
   */
  async write<T>(
    listener: TransactionListener,
    work: () => Promise<{ result: T; ids: readonly string[]; also?: readonly Entry[] }>,
  ): Promise<T> {
    this.demandOpen();
    const isFree = this.inFlight.size === 0 && this.state.saving === undefined;
    const turn = isFree ? work() : this.behindOthers().then(work);
    const write = turn.then(({ result, ids, also }) => {
      if (ids.length > 0) this.written.add({ listener, ids });
      for (const entry of also ?? []) this.written.add(entry);
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

  /** @internal */ async behindOthers(): Promise<void> {
    await Promise.allSettled([this.last, this.state.saved()]);
    if (this.written.spoilt !== undefined) throw rollbackOnly(this.written.spoilt.cause);
  }

  /** Of an enqueue that failed nobody knows what it left. @internal */
  rollBackOnly(cause: unknown): void {
    this.written.spoil(cause);
  }

  /** @internal */ demandOpen(): void {
    if (!this.state.isOpen) throw over();
    if (this.written.spoilt !== undefined) throw rollbackOnly(this.written.spoilt.cause);
  }

  /** For good: this is what a transaction without a message costs, and an undo would cost more. */
  hear(): void {
    if (this.hears) return;
    this.hears = true;
    const runner = this.runner as unknown as Watched;
    const original = runner.query;
    const pass = (args: unknown[], self: unknown): Promise<unknown> => this.pass(original, args, self);
    // A copy of the runner has a copy of this, and no part in our transaction.
    runner.query = function (this: unknown, ...args) {
      return isSame(this, runner) ? pass(args, this) : original.apply(this, args);
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

  /** @internal */ async endOf(
    name: Ending,
    original: Method,
    args: unknown[],
    self: unknown = this.runner,
  ): Promise<unknown> {
    const { runner } = this;
    await this.quiet();
    const wasActive = runner.isTransactionActive;
    try {
      return await original.apply(self, args);
    } finally {
      this.ended(name, wasActive);
    }
  }

  /** @internal Once more in front of the statement itself: subscribers of the end may have written. */
  pass(original: Method, args: unknown[], self: unknown = this.runner): Promise<unknown> {
    const { state } = this;
    const boundary = boundaryOf(args[0], args[1]);
    const noted = this.written.isEmpty ? undefined : this.noted;
    if (boundary === undefined && !this.losesTransactions && !this.refuses(boundary)) {
      const answer = original.apply(self, args);
      return noted === undefined ? answer : answer.catch(noted);
    }
    const send = (): Promise<unknown> => {
      if (this.refuses(boundary)) return Promise.reject(rollbackOnly(this.written.spoilt?.cause));
      if (isEnd(boundary) && !this.written.isEmpty) this.aborted = this.failed || isAborted(this.runner);
      const answer = state.send(boundary, () => original.apply(self, args));
      return boundary === undefined ? answer : answer.then((result) => this.answered(boundary, args[0], result), noted);
    };
    if (boundary !== undefined && this.inFlight.size > 0) return this.quiet().then(send);
    return state.isAlone ? state.others().then(send) : send();
  }

  /**
   * As PostgreSQL does in a transaction that has failed; but for SAVEPOINT, after which TypeORM would roll everything back and
   * take the next nested transaction for one of its own. @internal
   */
  refuses(boundary: Boundary | undefined): boolean {
    return this.written.spoilt !== undefined && boundary !== 'rollback' && boundary !== 'back' && boundary !== 'save';
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
    else this.state.lost(); // of several statements one may be COMMIT; MySQL begins a transaction with the end of another
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
    const around = (args: unknown[], self: unknown): Promise<unknown> => this.endOf(name, original, args, self);
    const wrapper = function (this: unknown, ...args: unknown[]): Promise<unknown> {
      return isSame(this, runner) ? around(args, this) : original.apply(this, args);
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
