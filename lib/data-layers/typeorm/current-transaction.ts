import type { DataSource, QueryRunner } from 'typeorm';
import { OutboxAmbiguousTransactionError, OutboxTransactionRequiredError } from '../../outbox.errors.js';
import type { TransactionHandle } from '../../outbox.options.js';
import { dataSourceOf, isActive, isEntityManager, isQueryRunner } from './query-runner.js';
import { typeName } from '../../options/text-checks.js';
import type { TransactionScope } from './transaction-scope.js';
import { oneOf } from './transaction-watch.js';

const HOW_TO =
  'Pass { manager } from dataSource.transaction((manager) => …), or call it inside outbox.transaction(…); enqueueOutsideTransaction says that none is wanted.';

/**
 * Finds the transaction to write in: the caller's `manager`, else the scope of `outbox.transaction` and `outbox.bind`, else
 * `currentManager()`. Fails closed: whatever is not an active transaction of the outbox's DataSource is an error.
 */
export class CurrentTransaction {
  constructor(
    readonly dataSource: DataSource,
    readonly scope: TransactionScope,
    readonly currentManager: (() => TransactionHandle | undefined) | undefined,
  ) {}

  require(handle: TransactionHandle | undefined): QueryRunner {
    if (handle !== undefined) return this.fromHandle(handle);
    const ambient = this.ambient();
    if (ambient !== undefined) return ambient;
    throw new OutboxTransactionRequiredError('There is no active transaction.', { hint: HOW_TO });
  }

  /** The active transaction around this call, checked, or `undefined` when there is none. */
  ambient(): QueryRunner | undefined {
    const scoped = activeOrNone(this.scope.current());
    const current = this.currentManager?.();
    const other = activeOrNone(current === undefined || current === null ? undefined : this.runnerOf(current));
    if (scoped !== undefined && other !== undefined && oneOf(scoped) !== oneOf(other)) {
      throw new OutboxAmbiguousTransactionError(
        'Two transactions are active: the one of outbox.transaction or outbox.bind, and the one of currentManager().',
        { hint: 'Pass { manager } to say which one is meant.' },
      );
    }
    const runner = scoped ?? other;
    if (runner !== undefined) this.check(runner);
    return runner;
  }

  /** Throws unless the handle stands for an active transaction of the right DataSource, on the primary. */
  fromHandle(handle: TransactionHandle): QueryRunner {
    const runner = this.runnerOf(handle);
    if (runner === undefined) {
      this.checkDataSource(handle);
      throw new OutboxTransactionRequiredError('The manager belongs to no transaction.', {
        hint: 'dataSource.manager and injected repositories write outside of it: use the manager that transaction() hands to its callback.',
      });
    }
    this.check(runner);
    return runner;
  }

  /** @internal */ runnerOf(handle: TransactionHandle): QueryRunner | undefined {
    if (typeof handle !== 'object' || handle === null) throw notAHandle(handle);
    if (isQueryRunner(handle)) return handle;
    if (isEntityManager(handle)) return handle.queryRunner;
    throw notAHandle(handle);
  }

  /** @internal */ check(runner: QueryRunner): void {
    this.checkDataSource(runner);
    if (runner.isReleased) throw new OutboxTransactionRequiredError('The query runner is released.', { hint: HOW_TO });
    if (!isActive(runner)) {
      throw new OutboxTransactionRequiredError(
        'The query runner has no active transaction: it did not start, or it has ended.',
        {
          hint: HOW_TO,
        },
      );
    }
    if (runner.getReplicationMode() === 'slave') {
      throw new OutboxTransactionRequiredError('The query runner is one for reading from a replica.', {
        hint: `Create it with createQueryRunner('master').`,
      });
    }
  }

  /** @internal */ checkDataSource(handle: TransactionHandle): void {
    const dataSource = dataSourceOf(handle);
    if (dataSource === this.dataSource) return;
    throw new OutboxTransactionRequiredError('The transaction belongs to another DataSource than the outbox.', {
      hint: 'An outbox writes into the database of its own DataSource; name another outbox with @InjectOutbox(name).',
    });
  }
}

function activeOrNone(runner: QueryRunner | undefined): QueryRunner | undefined {
  return runner !== undefined && isActive(runner) ? runner : undefined;
}

function notAHandle(value: unknown): OutboxTransactionRequiredError {
  return new OutboxTransactionRequiredError(`${typeName(value)} is no EntityManager and no QueryRunner.`, {
    hint: 'Of a repository, pass repository.manager.',
  });
}
