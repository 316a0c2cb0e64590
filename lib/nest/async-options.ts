import type { InjectionToken, Provider } from '@nestjs/common';
import { refuseOptions } from '../options/factory-options.js';
import { unknownNames } from '../options/option-names.js';
import { misconfigured } from '../outbox.errors.js';
import type { OutboxAsyncOptions, OutboxOptions, OutboxOptionsFactory } from '../outbox.options.js';
import { list, show } from '../options/show.js';

const KEYS = ['name', 'isGlobal', 'dataSource', 'imports', 'inject', 'useFactory', 'useClass', 'useExisting'];
const SOURCES = ['useFactory', 'useClass', 'useExisting'] as const;

/** The provider of the options, and of the class that makes them when we are to create it. */
export function asyncOptionsProviders(token: string, options: OutboxAsyncOptions): Provider[] {
  checkKeys(options);
  const { inject = [], useFactory, useClass, useExisting } = options;
  if (useFactory !== undefined) {
    return [{ provide: token, inject: [...inject], useFactory: useFactory as () => OutboxOptions }];
  }
  const factory = (useExisting ?? useClass) as InjectionToken<OutboxOptionsFactory>;
  return [
    ...(useClass === undefined ? [] : [useClass]),
    { provide: token, inject: [factory], useFactory: (from: unknown) => optionsOf(from, options) },
  ];
}

/** What the application made of the class may be anything: plain JavaScript, another name of the method, a mock. */
function optionsOf(
  from: unknown,
  { useClass, useExisting }: OutboxAsyncOptions,
): OutboxOptions | Promise<OutboxOptions> {
  const factory = from as Partial<OutboxOptionsFactory> | null | undefined;
  if (typeof factory?.createOutboxOptions === 'function') return factory.createOutboxOptions();
  const token: unknown = useExisting ?? useClass;
  const name = typeof token === 'function' ? token.name : show(typeof token === 'symbol' ? String(token) : token);
  const source = useClass === undefined ? 'useExisting' : 'useClass';
  misconfigured(
    `forRootAsync: ${name}, given as ${source}, has no method createOutboxOptions().`,
    'Write `implements OutboxOptionsFactory` behind its name: createOutboxOptions() returns the options, or a promise of them.',
  );
}

function checkKeys(options: OutboxAsyncOptions): void {
  refuseOptions('forRootAsync', unknownNames(options, KEYS), 'The factory returns everything else.');
  const given = SOURCES.filter((source) => options[source] !== undefined);
  if (given.length !== 1) misconfigured(`forRootAsync needs one of ${list(SOURCES)}, got ${given.length}.`);
}
