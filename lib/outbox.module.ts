import {
  Logger,
  Module,
  type DynamicModule,
  type InjectionToken,
  type ModuleMetadata,
  type Provider,
} from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { OutboxAdmin } from './admin/outbox-admin.js';
import { OutboxDoctor } from './doctor/outbox-doctor.js';
import { OutboxUnlocker } from './relay/leases/unlocker.js';
import { OutboxCleaner } from './clean/cleaner.js';
import { OutboxPartitionMaintainer } from './partitions/maintainer.js';
import { OutboxDispatcher } from './relay/dispatcher.js';
import { numberOf } from './enqueue/destinations.js';
import { OutboxService } from './enqueue/outbox.service.js';
import { asyncOptionsProviders } from './nest/async-options.js';
import { pickDataLayer, typeOrmModule, type FindDataLayer } from './data-layers/find.js';
import { callerOf, copiesText } from './nest/instances.js';
import { OutboxLifecycle } from './nest/lifecycle.js';
import type { OutboxOverrides } from './nest/overrides.js';
import { rewrite } from './nest/rewrite.js';
import { OutboxRelayModule, RelayHooks } from './nest/relay-hooks.js';
import { createRuntime, type OutboxRuntime } from './nest/assemble.js';
import type { OutboxAsyncOptions, OutboxExtras, OutboxOptions } from './outbox.options.js';
import {
  DEFAULT_NAME,
  dataSourceToken,
  getOutboxToken,
  lifecycleToken,
  optionsToken,
  overridesToken,
  runtimeToken,
  type OutboxPart,
} from './outbox.tokens.js';
import { InProcessHandlers } from './transports/in-process/handlers.js';
import { refuseNoObject } from './options/resolve.js';
import { QUESTION_TIMEOUT } from './store/diagnose/diagnose-store.js';

/** Import it once per outbox, in the root module: every call makes another instance. Several have names. */
@Module({})
export class OutboxModule {
  /** Declares an outbox with these options. They are checked when the application starts: `INVALID_OPTIONS` names all problems. */
  static forRoot(options: OutboxOptions & OutboxExtras): DynamicModule {
    refuseNoObject(options);
    const { name, isGlobal, dataSource, ...input } = options;
    return declare({
      extras: extrasOf({ name, isGlobal, dataSource }),
      options: [{ provide: optionsToken(name ?? DEFAULT_NAME), useValue: input }],
      imports: [],
      declaredAt: callerOf(OutboxModule.forRoot),
    });
  }

  /** `name`, `isGlobal` and `dataSource` stand beside `useFactory`: they are needed before it runs. */
  static forRootAsync(options: OutboxAsyncOptions): DynamicModule {
    const { name, isGlobal, dataSource, imports = [] } = options ?? {}; // plain JavaScript gives nothing at times
    return declare({
      extras: extrasOf({ name, isGlobal, dataSource }),
      options: asyncOptionsProviders(optionsToken(name ?? DEFAULT_NAME), options ?? {}),
      imports,
      declaredAt: callerOf(OutboxModule.forRootAsync),
    });
  }
}

interface Declaration {
  readonly extras: OutboxExtras;
  readonly options: readonly Provider[];
  readonly imports: NonNullable<ModuleMetadata['imports']>;
  readonly declaredAt: string;
}

function declare({ extras, options, imports, declaredAt }: Declaration): DynamicModule {
  const name = extras.name ?? DEFAULT_NAME;
  const copies = copiesText();
  if (copies !== undefined) new Logger('Outbox').warn(copies); // before Nest says that it has no such class
  const runtime = runtimeToken(name);
  const parts = partProviders(name, runtime);
  return {
    module: OutboxModule,
    global: extras.isGlobal ?? true,
    imports: [...imports, OutboxRelayModule, typeOrmModule(dataSourceToken(name), extras.dataSource, imports)],
    providers: [
      ...options,
      { provide: overridesToken(name), useValue: null },
      runtimeProvider(runtime, extras, declaredAt),
      lifecycleProvider(name, runtime),
      { provide: InProcessHandlers, inject: [runtime], useFactory: ({ handlers }: OutboxRuntime) => handlers },
      ...parts.map(({ provider }) => provider),
    ],
    exports: parts.map(({ token }) => token),
  };
}

/** By their tokens, so that what a test module overrides is what runs. */
function lifecycleProvider(name: string, runtime: string): Provider {
  const workers = [OutboxDispatcher, OutboxUnlocker, OutboxCleaner, OutboxPartitionMaintainer];
  return {
    provide: lifecycleToken(name),
    inject: [runtime, ModulesContainer, RelayHooks, ...workers.map((type) => getOutboxToken(name, type))],
    useFactory: (
      opened: OutboxRuntime,
      modules: ModulesContainer,
      hooks: RelayHooks,
      dispatcher: OutboxDispatcher,
      unlocker: OutboxUnlocker,
      cleaner: OutboxCleaner,
      maintainer: OutboxPartitionMaintainer,
    ) => new OutboxLifecycle({ ...opened, dispatcher, unlocker, cleaner, maintainer }, modules, hooks),
  };
}

/** Async, so that the store is open and every transport has its number before anybody's `onModuleInit` enqueues. */
function runtimeProvider(token: string, extras: OutboxExtras, declaredAt: string): Provider {
  const name = extras.name ?? DEFAULT_NAME;
  return {
    provide: token,
    inject: [optionsToken(name), dataSourceToken(name), overridesToken(name), ModuleRef, ModulesContainer, RelayHooks],
    useFactory: (
      { dataLayer: given, ...input }: OutboxOptions,
      ofTypeOrm: FindDataLayer | undefined,
      overrides: OutboxOverrides | null,
      moduleRef: ModuleRef,
      modules: ModulesContainer,
      hooks: RelayHooks,
    ) => {
      hooks.refuseLate(name, declaredAt);
      const dataLayer = pickDataLayer(given, ofTypeOrm, extras, modules);
      return createRuntime({ input, extras, overrides, dataLayer, moduleRef, application: modules, declaredAt });
    },
  };
}

function partProviders(
  name: string,
  runtime: string,
): { readonly token: InjectionToken; readonly provider: Provider }[] {
  const part = (type: OutboxPart, pick: (opened: OutboxRuntime) => unknown) => {
    const token = getOutboxToken(name, type);
    return { token, provider: { provide: token, inject: [runtime], useFactory: pick } };
  };
  return [
    part(OutboxService, ({ enqueue }) => new OutboxService(enqueue)),
    part(
      OutboxAdmin,
      ({ store, options, enqueue, pausesChanged }) =>
        new OutboxAdmin({
          ...{ store, options, numberOf, changed: (where) => enqueue.workAppeared(where) },
          pausesChanged,
          rewrite: (...edit) => rewrite(enqueue, ...edit),
        }),
    ),
    part(OutboxDoctor, doctorOf),
    part(OutboxDispatcher, ({ dispatcher }) => dispatcher),
    part(OutboxUnlocker, ({ unlocker }) => unlocker),
    part(OutboxCleaner, ({ cleaner }) => cleaner),
    part(OutboxPartitionMaintainer, ({ maintainer }) => maintainer),
  ];
}

function doctorOf({ options, clock, apart, enqueue }: OutboxRuntime): OutboxDoctor {
  const { openStore, openTransport, expected } = apart;
  return new OutboxDoctor({
    options,
    clock,
    openStore: () => openStore(QUESTION_TIMEOUT),
    openTransport,
    expected,
    health: () => enqueue.report.health(),
  });
}

/** Without what was not given. */
function extrasOf({ name, isGlobal, dataSource }: Record<keyof OutboxExtras, unknown>): OutboxExtras {
  return {
    ...(name === undefined ? {} : { name: name as string }),
    ...(isGlobal === undefined ? {} : { isGlobal: isGlobal as boolean }),
    ...(dataSource === undefined ? {} : { dataSource: dataSource as NonNullable<OutboxExtras['dataSource']> }),
  };
}
