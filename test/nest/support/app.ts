import type { INestApplicationContext, ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule, type TestingModuleBuilder } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  OutboxEvent,
  OutboxTransport,
  PUBLISHED,
  type OutboxHealth,
  type OutboxMessage,
  type OutboxOptions,
  type OutboxService,
  type PublishResult,
} from '../../../lib/index.js';
import { overridesToken } from '../../../lib/outbox.tokens.js';
import { systemClock, type Clock } from '../../../lib/time/clock.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import type { DatabaseKind } from '../../support/services.js';
import { gate } from '../../support/transport-relay.js';
import { until } from '../../support/until.js';

export { LineLogger } from '../../support/line-logger.js';

@OutboxEvent({ type: 'order.placed', topic: 'orders', key: (e) => e.orderId })
export class OrderPlaced {
  constructor(
    readonly orderId: string,
    readonly total = 1,
  ) {}
}

/** Remembers what it was given. */
export class CollectingTransport extends OutboxTransport {
  override readonly receipt: 'broker' | 'none' = 'broker';
  readonly ids: string[] = [];
  closed = 0;

  override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    this.ids.push(...batch.map(({ id }) => id));
    return batch.map(() => PUBLISHED);
  }
  override async close(): Promise<void> {
    this.closed++;
  }
}

/** Refuses everything until it is told not to. */
export class MoodyTransport extends CollectingTransport {
  refuses = true;

  override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    if (!this.refuses) return super.publish(batch);
    return batch.map(() => ({ ok: false, blame: 'message', error: new Error('no') }));
  }
}

/** Publishes when the test says so. */
export class GatedTransport extends CollectingTransport {
  readonly gate = gate();
  readonly handed: string[] = [];

  override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    this.handed.push(...batch.map(({ id }) => id));
    await this.gate.opened;
    return super.publish(batch);
  }
}

/** What most tests want: tables made, nothing logged, quick polls. */
export function quiet(options: Partial<OutboxOptions> = {}): OutboxOptions {
  const { database, ...rest } = options;
  return {
    transports: { default: new CollectingTransport() },
    logLevel: 'silent',
    pollInterval: 50,
    retry: { initial: 10, max: 50 },
    database: { setup: 'create', ...database },
    ...rest,
  };
}

/** Those of applications that failed to start are closed by nobody else. */
const dataSources: DataSource[] = [];

export const typeOrm = (database: TestDatabase, name?: string) =>
  TypeOrmModule.forRootAsync({
    ...(name === undefined ? {} : { name }),
    useFactory: () => ({ ...database.options, retryAttempts: 0 }),
    dataSourceFactory: async (options) => {
      const dataSource = await new DataSource(options as DataSourceOptions).initialize();
      dataSources.push(dataSource);
      return dataSource;
    },
  });

export const build = (
  imports: ModuleMetadata['imports'],
  providers: ModuleMetadata['providers'] = [],
  controllers: NonNullable<ModuleMetadata['controllers']> = [],
): TestingModuleBuilder =>
  Test.createTestingModule({ imports: imports ?? [], providers, controllers }).setLogger(false as never);

const HALF_A_MINUTE = 30_000;
/** What would come of itself in half a minute or later never comes. */
export const signalsOnly: Clock = {
  ...systemClock,
  after: (ms, action) => (ms < HALF_A_MINUTE ? systemClock.after(ms, action) : () => undefined),
};

/** With a `pollInterval` of half a minute or more nothing is found by a poll, however long the test takes: only by a signal. */
export const withoutPolls = (builder: TestingModuleBuilder): TestingModuleBuilder =>
  builder.overrideProvider(overridesToken('default')).useValue({ clock: signalsOnly });

/** Health once the database has counted for it, which takes a busy one longer than `health()` waits, and once `is` holds. */
export async function countedHealth(
  outbox: OutboxService,
  is: (health: OutboxHealth) => boolean = () => true,
): Promise<OutboxHealth> {
  let health!: OutboxHealth;
  await until(async () => {
    health = await outbox.health();
    return !health.reasons.some(({ code }) => code === 'counts_late') && is(health);
  });
  return health;
}

/** Applications of one test, closed at its end. */
export class Applications {
  readonly open: INestApplicationContext[] = [];

  async start(builder: TestingModuleBuilder): Promise<TestingModule> {
    const compiled = await builder.compile();
    this.open.push(compiled);
    return compiled.init();
  }
  async close(): Promise<void> {
    for (const application of this.open.splice(0)) await application.close();
    for (const dataSource of dataSources.splice(0)) if (dataSource.isInitialized) await dataSource.destroy();
  }
}

/**
 * Applications on a database of the suite's own, or of each test's. Called where its hooks belong; the database is there once they ran.
 */
export function useApplications(
  kind: DatabaseKind = 'postgres',
  of: 'suite' | 'test' = 'suite',
): { readonly applications: Applications; readonly database: TestDatabase } {
  const [applications, database] = [new Applications(), {} as TestDatabase];
  const create = async (): Promise<void> => void Object.assign(database, await createTestDatabase(kind));
  const drop = (): Promise<void> | undefined => database.drop?.();
  if (of === 'suite') beforeAll(create);
  else beforeEach(create);
  afterEach(() => applications.close());
  if (of === 'suite') afterAll(drop);
  else afterEach(drop);
  return { applications, database };
}

/** What a start fails with. */
export async function failure(builder: TestingModuleBuilder): Promise<Error & { code?: string }> {
  const compiled = await builder.compile().catch((error: Error) => error);
  if (compiled instanceof Error) return compiled;
  try {
    await compiled.init();
  } catch (error) {
    await compiled.close().catch(() => {});
    return error as Error;
  }
  await compiled.close();
  throw new Error('It started.');
}

export async function enqueueIn(
  dataSource: DataSource,
  write: (manager: DataSource['manager']) => Promise<unknown>,
): Promise<void> {
  await dataSource.transaction(async (manager) => {
    await write(manager);
  });
}

export { until };
