import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { typeName } from '../../options/text-checks.js';
import { OutboxConfigurationError, OutboxTransactionRequiredError } from '../../outbox.errors.js';
import type { ResolvedOptions } from '../../outbox.options.js';
import type { SqlDatabase } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import type { DataLayer, Session, Tables } from '../../transaction/data-layer.js';
import type { OutboxTransactionOptions } from '../../transaction/options.js';
import { connectionSchema, dialectOf, type Dialect } from './dialect.js';
import { openMysqlDatabase } from './mysql.js';
import { outsideWrites } from './outside-writes.js';
import { openPostgresDatabase } from './postgres.js';
import { isEntityManager, isQueryRunner } from './query-runner.js';
import { demandDataSource, HOW_TO, RunnerSession } from './runner-session.js';
import { watchTransactions } from './runner-watch.js';
import { tablesOf } from './tables-of.js';

const OPEN = { postgres: openPostgresDatabase, mysql: openMysqlDatabase } as const;

/** The data layer of an application that has its database through TypeORM. */
export class TypeOrm implements DataLayer {
  readonly howTo = HOW_TO;

  constructor(readonly source: DataSource) {}

  get dialect(): Dialect {
    return dialectOf(this.source);
  }

  get defaultSchema(): string | undefined {
    return connectionSchema(this.source);
  }

  find(handle: unknown): RunnerSession | undefined {
    const runner = runnerOf(handle);
    return runner === undefined ? undefined : new RunnerSession(runner, this.source);
  }

  require(handle: unknown): RunnerSession {
    const session = this.find(handle);
    if (session === undefined) {
      demandDataSource(handle as EntityManager, this.source);
      throw new OutboxTransactionRequiredError('The manager belongs to no transaction.', {
        hint: 'dataSource.manager and injected repositories write outside of it: use the manager that transaction() hands to its callback.',
      });
    }
    session.demandActive();
    return session;
  }

  transaction<T>(
    work: (manager: EntityManager) => Promise<T>,
    isolation?: OutboxTransactionOptions['isolation'],
  ): Promise<T> {
    return isolation === undefined ? this.source.transaction(work) : this.source.transaction(isolation, work);
  }

  watchTransactions(ambient?: () => Session | undefined, warn: (text: string) => void = () => undefined): void {
    watchTransactions(this.source, ambient && outsideWrites(ambient, warn));
  }

  open(): void {
    if (this.source.isInitialized) return;
    throw new OutboxConfigurationError('NOT_STARTED', 'OutboxModule: the DataSource is not initialized.', {
      hint: 'Provide it initialized: useFactory: () => new DataSource({ … }).initialize().',
    });
  }

  tablesOf(options: ResolvedOptions): Tables {
    return tablesOf(this.source, options);
  }

  openDatabase(settings: StoreSettings): SqlDatabase {
    return OPEN[this.dialect](this.source, settings);
  }
}

function runnerOf(handle: unknown): QueryRunner | undefined {
  if (typeof handle !== 'object' || handle === null) throw notAHandle(handle);
  if (isQueryRunner(handle)) return handle;
  if (isEntityManager(handle)) return handle.queryRunner;
  throw notAHandle(handle);
}

function notAHandle(value: unknown): OutboxTransactionRequiredError {
  return new OutboxTransactionRequiredError(`${typeName(value)} is no EntityManager and no QueryRunner.`, {
    hint: 'Of a repository, pass repository.manager.',
  });
}
