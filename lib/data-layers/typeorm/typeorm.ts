import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { typeName } from '../../options/text-checks.js';
import { OutboxConfigurationError, OutboxTransactionRequiredError } from '../../outbox.errors.js';
import type { ResolvedOptions } from '../../outbox.options.js';
import type { SqlDatabase } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import type { DataLayer, Session, Tables } from '../../transaction/data-layer.js';
import type { OutboxTransactionOptions } from '../../transaction/options.js';
import { OtherPools } from '../drivers/other-pools.js';
import { connectionSchema, dialectOf, type Dialect } from './dialect.js';
import { openMysqlDatabase, sourceOf as ofMysql } from './mysql.js';
import { outsideWrites } from './outside-writes.js';
import { openPostgresDatabase, sourceOf as ofPostgres } from './postgres.js';
import { dataSourceOf, isEntityManager, isQueryRunner } from './query-runner.js';
import { HOW_TO, RunnerSession } from './runner-session.js';
import { watchTransactions } from './runner-watch.js';
import { tablesOf } from './tables-of.js';

const OPEN = { postgres: openPostgresDatabase, mysql: openMysqlDatabase } as const;

/** The data layer of an application that has its database through TypeORM. */
export class TypeOrm implements DataLayer {
  readonly howTo = HOW_TO;
  private readonly others = new OtherPools(() =>
    this.dialect === 'postgres' ? { postgres: ofPostgres(this.source) } : { mysql: ofMysql(this.source) },
  );

  constructor(readonly source: DataSource) {}

  get dialect(): Dialect {
    return dialectOf(this.source);
  }

  get defaultSchema(): string | undefined {
    return connectionSchema(this.source);
  }

  find(handle: unknown): RunnerSession | Promise<RunnerSession> | undefined {
    const runner = runnerOf(handle);
    if (runner === undefined) return undefined;
    const session = new RunnerSession(runner);
    const dataSource = dataSourceOf(runner);
    return dataSource === this.source ? session : this.ofAnother(session, dataSource);
  }

  /** Of one whose connections have another schema for their default, or another login. */
  private async ofAnother(session: RunnerSession, other: DataSource | undefined): Promise<RunnerSession> {
    if (other === undefined || dialectOf(other) !== this.dialect) throw foreign();
    await this.others.admit(session, other.driver, foreign);
    watchTransactions(other);
    return session;
  }

  require(handle: unknown): RunnerSession | Promise<RunnerSession> {
    const session = this.find(handle);
    if (session === undefined) {
      throw new OutboxTransactionRequiredError('The manager belongs to no transaction.', {
        hint: 'dataSource.manager and injected repositories write outside of it: use the manager that transaction() hands to its callback.',
      });
    }
    if (!(session instanceof Promise)) session.demandActive();
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

const foreign = (): OutboxTransactionRequiredError =>
  new OutboxTransactionRequiredError('The transaction belongs to another DataSource than the outbox.', {
    hint: 'That one leads into another database: name another outbox with @InjectOutbox(name).',
  });

function notAHandle(value: unknown): OutboxTransactionRequiredError {
  return new OutboxTransactionRequiredError(`${typeName(value)} is no EntityManager and no QueryRunner.`, {
    hint: 'Of a repository, pass repository.manager.',
  });
}
