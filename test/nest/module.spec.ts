// @tier fast
import { Injectable, Module, type DynamicModule, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { DataSource } from 'typeorm';
import {
  getOutboxToken,
  InjectOutbox,
  OutboxCleaner,
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
  OutboxUnlocker,
  type OutboxModuleAsyncOptions,
  type OutboxModuleOptions,
  type OutboxOptions,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';
import {
  useApplications,
  build,
  CollectingTransport,
  enqueueIn,
  failure,
  LineLogger,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';

describeWith('postgres', 'OutboxModule', () => {
  let other: TestDatabase;
  const { applications, database } = useApplications();

  beforeAll(async () => {
    other = await createTestDatabase('postgres');
  });
  afterAll(async () => {
    await other.drop();
  });

  it('publishes what was committed, and not what was rolled back', async () => {
    const transport = new CollectingTransport();
    const app = await applications.start(
      build([typeOrm(database), OutboxModule.forRoot(quiet({ transports: { default: transport } }))]),
    );
    const outbox = app.get(OutboxService);
    const committed: string[] = [];
    await enqueueIn(app.get(DataSource), async (manager) =>
      committed.push(await outbox.enqueue(new OrderPlaced('a'), { manager })),
    );
    await expect(
      enqueueIn(app.get(DataSource), async (manager) => {
        await outbox.enqueue(new OrderPlaced('b'), { manager });
        throw new Error('changed my mind');
      }),
    ).rejects.toThrow('changed my mind');
    await enqueueIn(app.get(DataSource), async (manager) =>
      committed.push(await outbox.with(manager).enqueue(new OrderPlaced('a'))),
    );
    await until(() => transport.ids.length >= 2);
    expect(transport.ids).toEqual(committed);
  });

  it('gives every part by its class, also to modules that import nothing', async () => {
    @Injectable()
    class User {
      constructor(
        readonly outbox: OutboxService,
        readonly dispatcher: OutboxDispatcher,
        readonly unlocker: OutboxUnlocker,
        readonly cleaner: OutboxCleaner,
      ) {}
    }
    @Module({ providers: [User] })
    class Feature {}
    const app = await applications.start(
      build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: false })), Feature]),
    );
    const user = app.get(User, { strict: false });
    expect([user.outbox, user.dispatcher, user.unlocker, user.cleaner].map((part) => part.constructor)).toEqual([
      OutboxService,
      OutboxDispatcher,
      OutboxUnlocker,
      OutboxCleaner,
    ]);
  });

  describe('forRootAsync', () => {
    @Injectable()
    class Config {
      readonly relay = false;
    }
    @Module({ providers: [Config], exports: [Config] })
    class ConfigModule {}
    @Injectable()
    class OutboxConfig {
      constructor(readonly config: Config) {}
      createOutboxOptions(): OutboxOptions {
        return quiet({ relay: this.config.relay });
      }
    }
    @Module({ imports: [ConfigModule], providers: [OutboxConfig], exports: [OutboxConfig] })
    class OutboxConfigModule {}

    const enqueues = async (module: DynamicModule): Promise<void> => {
      const app = await applications.start(build([typeOrm(database), module]));
      const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('x'));
      expect(id).toHaveLength(36);
    };

    it('takes a factory with imports and inject', () =>
      enqueues(
        OutboxModule.forRootAsync({
          imports: [ConfigModule],
          inject: [Config],
          useFactory: async (config: Config) => quiet({ relay: config.relay }),
        }),
      ));
    it('takes a class, and makes it', () =>
      enqueues(OutboxModule.forRootAsync({ imports: [ConfigModule], useClass: OutboxConfig })));
    it('takes an existing provider', () =>
      enqueues(OutboxModule.forRootAsync({ imports: [OutboxConfigModule], useExisting: OutboxConfig })));

    it.each(['useClass', 'useExisting'] as const)(
      'Y2: says of %s without createOutboxOptions() what is missing, and where',
      async (source) => {
        @Injectable()
        class OldConfig {
          createTypeOrmOptions(): object {
            return {};
          }
        }
        @Module({ providers: [OldConfig], exports: [OldConfig] })
        class OldModule {}
        const given = { imports: [OldModule], [source]: OldConfig } as never;
        const { message } = await failure(build([typeOrm(database), OutboxModule.forRootAsync(given)]));
        expect(message).toBe(
          `forRootAsync: OldConfig, given as ${source}, has no method createOutboxOptions(). Write \`implements OutboxOptionsFactory\` behind its name: createOutboxOptions() returns the options, or a promise of them.`,
        );
      },
    );

    it('Y5: takes options by the names that Nest gives them', async () => {
      const options: OutboxModuleOptions = { ...quiet(), isGlobal: true };
      const later: OutboxModuleAsyncOptions = { useFactory: () => quiet() };
      await enqueues(OutboxModule.forRoot(options));
      await applications.close();
      await enqueues(OutboxModule.forRootAsync(later));
    });

    it('says what it does not know', () => {
      expect(() => OutboxModule.forRootAsync({ useFactroy: () => quiet() } as never)).toThrow(
        /useFactroy is no option \(did you mean 'useFactory'\?\)/,
      );
      expect(() => OutboxModule.forRootAsync({})).toThrow(
        /needs one of 'useFactory', 'useClass', 'useExisting', got 0/,
      );
      expect(() => OutboxModule.forRootAsync({ useFactory: () => quiet(), useClass: OutboxConfig })).toThrow(/got 2/);
    });

    it('refuses a name that comes too late', async () => {
      const error = await failure(
        build([typeOrm(database), OutboxModule.forRootAsync({ useFactory: () => ({ ...quiet(), name: 'late' }) })]),
      );
      expect(error.message).toContain('name: belongs beside useFactory');
    });
  });

  it('Y2: tells at start of two classes that are one event', async () => {
    OutboxEvent({ type: 'told.twice' })(class TwinOne {});
    OutboxEvent({ type: 'told.twice' })(class TwinTwo {});
    const logger = new LineLogger();
    await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ logger, logLevel: 'warn' }))]));
    await until(() => logger.lines.some((line) => line.includes('told.twice')));
    expect(logger.lines.filter((line) => line.includes('told.twice'))).toEqual([
      expect.stringMatching(/^warn TwinOne and TwinTwo are both event 'told\.twice' version 1: .*type or version/),
    ]);
  });

  it('runs what a test module overrides, and tells a pass of the cleaner of the stop', async () => {
    const cleaner = { runOnce: jest.fn(async (..._: [unknown?, { signal: AbortSignal }?]) => ({ published: 0 })) };
    const options = quiet({ transports: { default: new CollectingTransport() }, retention: { every: '1s' } });
    const builder = build([typeOrm(database), OutboxModule.forRoot(options)]).overrideProvider(OutboxCleaner);
    await applications.start(builder.useValue(cleaner));
    await until(() => cleaner.runOnce.mock.calls.length > 0);
    const signal = cleaner.runOnce.mock.calls[0]?.[1]?.signal;
    expect(signal?.aborted).toBe(false);
    await applications.close();
    expect(signal?.aborted).toBe(true);
  });

  it('lets everybody enqueue in onModuleInit', async () => {
    const ids: string[] = [];
    @Injectable()
    class Early implements OnModuleInit {
      constructor(
        readonly outbox: OutboxService,
        readonly moduleRef: ModuleRef,
      ) {}
      async onModuleInit(): Promise<void> {
        ids.push(await this.outbox.enqueueOutsideTransaction(new OrderPlaced('early')));
      }
    }
    await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: false }))], [Early]));
    expect(ids).toHaveLength(1);
  });

  it('serves two DataSources by name', async () => {
    @Injectable()
    class Both {
      constructor(
        readonly main: OutboxService,
        @InjectOutbox('audit') readonly audit: OutboxService,
        @InjectOutbox('audit', OutboxDispatcher) readonly dispatcher: OutboxDispatcher,
      ) {}
    }
    const [mainTransport, auditTransport] = [new CollectingTransport(), new CollectingTransport()];
    const app = await applications.start(
      build(
        [
          typeOrm(database),
          typeOrm(other, 'audit'),
          OutboxModule.forRoot(quiet({ transports: { default: mainTransport } })),
          OutboxModule.forRoot({
            ...quiet({ transports: { default: auditTransport } }),
            name: 'audit',
            dataSource: 'audit',
          }),
        ],
        [Both],
      ),
    );
    const { main, audit, dispatcher } = app.get(Both);
    const inMain = await main.enqueueOutsideTransaction(new OrderPlaced('1'));
    const inAudit = await audit.enqueueOutsideTransaction(new OrderPlaced('2'));
    await until(() => mainTransport.ids.includes(inMain) && auditTransport.ids.includes(inAudit));
    expect(auditTransport.ids).not.toContain(inMain);
    expect(mainTransport.ids).not.toContain(inAudit);
    expect(app.get(getOutboxToken('audit', OutboxDispatcher))).toBe(dispatcher);
    await expect(
      enqueueIn(app.get('auditDataSource'), (manager) => main.enqueue(new OrderPlaced('3'), { manager })),
    ).rejects.toMatchObject({ code: 'TRANSACTION_REQUIRED' });
  });

  it('is not global when told so', async () => {
    @Injectable()
    class Needs {
      constructor(readonly outbox: OutboxService) {}
    }
    const module = OutboxModule.forRoot({ ...quiet({ relay: false }), isGlobal: false });
    @Module({ imports: [module], providers: [Needs] })
    class With {}
    @Module({ providers: [Needs] })
    class Without {}
    expect((await failure(build([typeOrm(database), With, Without]))).message).toMatch(
      /Nest can't resolve dependencies of the Needs/,
    );
    await applications.start(build([typeOrm(database), With]));
  });

  it('reports all wrong options at once, at start', async () => {
    const error = await failure(
      build([
        typeOrm(database),
        OutboxModule.forRoot({ ...quiet(), lease: 0, pollInterval: -1, batchsize: 5 } as never),
      ]),
    );
    expect(error).toMatchObject({ code: 'INVALID_OPTIONS' });
    expect(error.message.split('\n')).toHaveLength(4);
    expect(error.message).toContain("did you mean 'batchSize'?");
  });

  it('says what to run when the tables are missing', async () => {
    const check = quiet({ database: { setup: 'check', prefix: 'nowhere_' } });
    expect(await failure(build([typeOrm(database), OutboxModule.forRoot(check)]))).toMatchObject({
      code: 'SCHEMA_MISSING',
    });
  });

  it('warns when another copy of the package is loaded', async () => {
    const registry = (globalThis as any)[Symbol.for('nestjs-outbox:instances')] as { copies: Set<string> };
    registry.copies.add('/elsewhere/node_modules/nestjs-outbox/dist/cjs/module/instances.js');
    const logger = new LineLogger();
    const app = await applications.start(
      build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: false, logger, logLevel: 'log' }))]),
    );
    registry.copies.delete('/elsewhere/node_modules/nestjs-outbox/dist/cjs/module/instances.js');
    await app.close();
    const warning = logger.lines.find((line) => line.includes('loaded more than once'));
    expect(warning).toMatch(/^warn .*instances\.ts and \/elsewhere\/node_modules/);
  });
});
