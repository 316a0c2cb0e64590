import { types } from 'node:util';
import type { DataSource, QueryRunner } from 'typeorm';
import { TransactionWatch } from '../../transaction/transaction-watch.js';
import { driverOf, isMysql } from './query-runner.js';

const ENDINGS = ['commitTransaction', 'rollbackTransaction'] as const;
type Ending = (typeof ENDINGS)[number];
type Method = (...args: unknown[]) => Promise<unknown>;

/**
 * In the runner itself: with a WeakMap, the garbage collection of runners, one for each transaction of the application, cost
 * more than the rest of this.
 */
const WATCH = Symbol('nestjs-outbox: watch');
const BEGINS = Symbol('nestjs-outbox: hears beginnings');
interface Watched extends Record<Ending | 'query', Method> {
  [WATCH]?: RunnerWatch;
  [BEGINS]?: unknown;
}

/** The one of this runner's transactions. A copy of a runner has its own. */
export function watchOf(runner: QueryRunner): RunnerWatch {
  watchBeginnings(runner);
  return makeOrFind(runner);
}

/** Whether it is what this runner's transactions are watched by. */
export function isWatchedBy(runner: QueryRunner, watch: TransactionWatch): boolean {
  const one = oneOf(runner);
  const known = (one as unknown as Watched)[WATCH];
  return known === watch && known.runner === one;
}

function makeOrFind(runner: QueryRunner): RunnerWatch {
  const one = oneOf(runner);
  const watched = one as unknown as Watched;
  const known = watched[WATCH];
  return known?.runner === one ? known : (watched[WATCH] = new RunnerWatch(one));
}

/** A Proxy of a runner, and the runner behind it, have one transaction: both are the one that their manager has. */
function oneOf(runner: QueryRunner): QueryRunner {
  const named = (runner.manager as QueryRunner['manager'] | undefined)?.queryRunner;
  const isOne = named !== undefined && named !== runner && (types.isProxy(runner) || types.isProxy(named));
  return isOne ? named : runner;
}

/** @param self what a method of the runner is called on */
function isSame(self: unknown, runner: unknown): boolean {
  return self === runner || (Object(self) === self && oneOf(self as QueryRunner) === runner);
}

/**
 * Has the transactions of this DataSource watched from their beginning.
 * @param created hears of each query runner, in place of an earlier one; without it, that one goes on
 */
export function watchTransactions(dataSource: DataSource, created?: (runner: QueryRunner) => void): void {
  const isWatched = watchedSources.has(dataSource);
  if (created !== undefined || !isWatched) watchedSources.set(dataSource, created);
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
    const watch = makeOrFind(this);
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
 * Where the answer of an end does not tell what became of messages, the methods do: a failed COMMIT is followed by a ROLLBACK,
 * and a subscriber may throw after a COMMIT that succeeded.
 */
export class RunnerWatch extends TransactionWatch {
  /** How to undo what is wrapped now. */
  readonly wrapped = new Map<Ending, () => boolean>();
  /** Every statement of the runner comes by here. */
  hears = false;

  constructor(readonly runner: QueryRunner) {
    super(isMysql(runner), () => driverOf(runner));
  }

  /** Before each write. */
  listen(): void {
    // Somebody else's statements went before.
    if (!this.hears && this.losesTransactions) this.state.doubtful = true;
    this.hear();
    this.arm();
  }

  /** For good: this is what a transaction without a message costs, and an undo would cost more. */
  hear(): void {
    if (this.hears) return;
    this.hears = true;
    const runner = this.runner as unknown as Watched;
    const original = runner.query;
    const pass = (args: unknown[], self: unknown): Promise<unknown> =>
      this.pass(args[0], args[1], () => original.apply(self, args));
    // A copy of the runner has a copy of this, and no part in our transaction.
    runner.query = function (this: unknown, ...args) {
      return isSame(this, runner) ? pass(args, this) : original.apply(this, args);
    };
  }

  /** Wraps what is not wrapped yet. */
  arm(): void {
    for (const name of ENDINGS) if (!this.wrapped.has(name)) this.wrapped.set(name, this.wrap(name));
  }

  async endOf(name: Ending, original: Method, args: unknown[], self: unknown = this.runner): Promise<unknown> {
    const { runner } = this;
    await this.quiet();
    const wasActive = runner.isTransactionActive;
    try {
      return await original.apply(self, args);
    } finally {
      this.ended(name, wasActive);
    }
  }

  /** Returns how to undo it. */
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

  ended(ending: Ending, wasActive: boolean): void {
    if (this.runner.isTransactionActive) return; // a savepoint's end
    this.state.begin(); // for who begins the next one without our hearing of it
    for (const [name, restore] of this.wrapped) if (restore()) this.wrapped.delete(name);
    this.tellAll(ending === 'commitTransaction' && wasActive && !this.failed);
  }
}
