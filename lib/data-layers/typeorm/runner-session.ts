import type { EntityManager, QueryRunner } from 'typeorm';
import { OutboxTransactionRequiredError } from '../../outbox.errors.js';
import type { SqlExecutor } from '../../store/executor.js';
import type { Session } from '../../transaction/data-layer.js';
import { isActive } from './query-runner.js';
import { watchOf, type RunnerWatch } from './runner-watch.js';
import { transactionExecutor } from './transaction.js';

export const HOW_TO =
  'Pass { manager } from dataSource.transaction((manager) => …), or call it inside outbox.transaction(…); enqueueOutsideTransaction says that none is wanted.';

/** A query runner of the application's. */
export class RunnerSession implements Session {
  constructor(readonly runner: QueryRunner) {}

  get watch(): RunnerWatch {
    return watchOf(this.runner);
  }

  get handle(): EntityManager {
    return this.runner.manager;
  }

  get executor(): SqlExecutor {
    return transactionExecutor(this.runner);
  }

  get isActive(): boolean {
    return isActive(this.runner);
  }

  demandActive(): void {
    const { runner } = this;
    if (runner.isReleased) throw new OutboxTransactionRequiredError('The query runner is released.', { hint: HOW_TO });
    if (!isActive(runner)) {
      throw new OutboxTransactionRequiredError(
        'The query runner has no active transaction: it did not start, or it has ended.',
        { hint: HOW_TO },
      );
    }
    if (runner.getReplicationMode() === 'slave') {
      throw new OutboxTransactionRequiredError('The query runner is one for reading from a replica.', {
        hint: `Create it with createQueryRunner('master').`,
      });
    }
  }

  listen(): RunnerWatch {
    const { watch } = this;
    watch.listen();
    return watch;
  }

  nested<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    return this.runner.manager.transaction(work);
  }
}
