import { Module, type DynamicModule, type ModuleMetadata, type Provider } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { pickDataLayer, typeOrmModule, type FindDataLayer } from '../data-layers/find.js';
import { OutboxService } from '../enqueue/outbox.service.js';
import { openInbox } from './open-inbox.js';
import { cleanerOf, InboxCleaner } from './cleaner.js';
import { misconfigured } from '../outbox.errors.js';
import { DEFAULT_NAME } from '../outbox.tokens.js';
import type { InboxAsyncOptions, InboxExtras, InboxOptions } from './inbox.options.js';
import { serviceOf } from './inbox.service.js';
import { getInboxToken } from './inbox.tokens.js';
import type { OpenedInbox } from './lifecycle.js';

/** Import it once per inbox, in the root module. It needs no `OutboxModule`; beside one it has its data layer and schema. */
@Module({})
export class InboxModule {
  /** @throws OutboxConfigurationError `INVALID_OPTIONS`, at start, with all problems */
  static forRoot({ name, dataSource, ...options }: InboxOptions & InboxExtras = {}): DynamicModule {
    const given = { provide: optionsToken(name), useValue: options };
    return declare({ name, dataSource }, given, []);
  }

  /** `name` and `dataSource` stand beside `useFactory`: they are needed before it runs. */
  static forRootAsync({ name, dataSource, imports = [], inject = [], useFactory }: InboxAsyncOptions): DynamicModule {
    return declare({ name, dataSource }, { provide: optionsToken(name), inject: [...inject], useFactory }, imports);
  }
}

const optionsToken = (name = DEFAULT_NAME): string => `Inbox(${name}).options`;

function declare(
  { name = DEFAULT_NAME, dataSource }: { readonly [Name in keyof InboxExtras]-?: InboxExtras[Name] | undefined },
  options: Provider,
  imports: NonNullable<ModuleMetadata['imports']>,
): DynamicModule {
  const own = `Inbox(${name})`;
  const [opened, typeOrm] = [`${own}.opened`, `${own}.dataSource`];
  const token = getInboxToken(name);
  const cleaner = name === DEFAULT_NAME ? InboxCleaner : `${own}.cleaner`;
  const providers: Provider[] = [
    options,
    {
      provide: opened,
      inject: [optionsToken(name), typeOrm, ModulesContainer, { token: OutboxService, optional: true }],
      useFactory: (
        given: InboxOptions,
        ofTypeOrm: FindDataLayer | undefined,
        modules: ModulesContainer,
        outbox: OutboxService | undefined,
      ) => {
        refuseTwin(modules, name, opened);
        const isOther = given.dataLayer !== undefined && given.dataLayer !== outbox?.runtime.dataLayer;
        const isOwn = isOther || dataSource !== undefined || outbox === undefined;
        const extras = dataSource === undefined ? {} : { dataSource };
        const dataLayer = isOwn ? pickDataLayer(given.dataLayer, ofTypeOrm, extras, modules) : outbox.runtime.dataLayer;
        return openInbox(name, given, dataLayer, outbox, isOwn);
      },
    },
    { provide: token, inject: [opened], useFactory: ({ runtime }: OpenedInbox) => serviceOf(runtime) },
    { provide: cleaner, inject: [opened], useFactory: ({ runtime }: OpenedInbox) => cleanerOf(runtime) },
  ];
  return {
    module: InboxModule,
    global: true,
    imports: [...imports, typeOrmModule(typeOrm, dataSource, imports)],
    providers,
    exports: [token, cleaner],
  };
}

/** Nest would give everybody one of them, and run the cleaner of the other. */
function refuseTwin(modules: ModulesContainer, name: string, token: string): void {
  if ([...modules.values()].filter(({ providers }) => providers.has(token)).length < 2) return;
  const hint =
    'Import InboxModule once, in the root module (every call of forRoot makes another inbox); or give one a name.';
  misconfigured(`There are two inboxes named '${name}' in this application.`, hint, 'DUPLICATE_INSTANCE');
}
