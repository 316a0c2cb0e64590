import type { InjectionToken, Provider } from '@nestjs/common';
import { didYouMean } from '../did-you-mean.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { OutboxAsyncOptions, OutboxOptions, OutboxOptionsFactory } from '../outbox.options.js';
import { list } from '../show.js';

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
    { provide: token, inject: [factory], useFactory: (from: OutboxOptionsFactory) => from.createOutboxOptions() },
  ];
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
