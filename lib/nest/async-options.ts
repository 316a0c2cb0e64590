import type { InjectionToken, Provider } from '@nestjs/common';
import { didYouMean } from '../options/did-you-mean.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
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
  throw new OutboxConfigurationError(
    'INVALID_OPTIONS',
    `forRootAsync: ${name}, given as ${source}, has no method createOutboxOptions().`,
    {
      hint: 'Write `implements OutboxOptionsFactory` behind its name: createOutboxOptions() returns the options, or a promise of them.',
    },
  );
}

function checkKeys(options: OutboxAsyncOptions): void {
  const problems = Object.keys(options)
    .filter((key) => !KEYS.includes(key))
    .map(
      (key) =>
        `'${key}'${KEYS.includes(didYouMean(key, KEYS) ?? '') ? ` (did you mean '${didYouMean(key, KEYS)}'?)` : ''}`,
    );
  if (problems.length > 0) {
    throw new OutboxConfigurationError('INVALID_OPTIONS', `forRootAsync does not know ${problems.join(', ')}.`, {
      hint: `It takes ${list(KEYS)}; everything else is returned by the factory.`,
    });
  }
  const given = SOURCES.filter((source) => options[source] !== undefined);
  if (given.length !== 1) {
    throw new OutboxConfigurationError(
      'INVALID_OPTIONS',
      `forRootAsync needs one of ${list(SOURCES)}, got ${given.length}.`,
    );
  }
}
