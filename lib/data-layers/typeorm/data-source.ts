import type { InjectionToken } from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { OutboxExtras } from '../../outbox.options.js';
import { show } from '../../options/show.js';

/**
 * Tokens under which the DataSource may be, best first: those of @nestjs/typeorm, which provides the unnamed one as the
 * class and a named one as `<name>DataSource`. Empty for an object.
 */
export function dataSourceTokens(dataSource: OutboxExtras['dataSource']): InjectionToken[] {
  if (dataSource === undefined || dataSource === 'default') return [DataSource];
  if (typeof dataSource === 'string') return [`${dataSource}DataSource`, dataSource];
  return isDataSource(dataSource) ? [] : [dataSource];
}

export function pickDataSource(
  asked: OutboxExtras['dataSource'],
  injected: readonly unknown[],
  modules: ModulesContainer,
): DataSource {
  const found = isDataSource(asked) ? asked : injected.find((candidate) => candidate !== undefined);
  if (isDataSource(found)) return found;
  const what = asked === undefined ? 'the default DataSource' : `DataSource ${show(asked)}`;
  const problem = found === undefined ? `${what} is not there` : `${show(asked)} is ${show(found)}, not a DataSource`;
  throw new OutboxConfigurationError('DATA_SOURCE_NOT_FOUND', `dataSource: ${problem}. ${inventory(modules)}`, {
    hint: line(asked),
  });
}

/** A copy of TypeORM beside ours gives another class of the same shape. */
export function isDataSource(value: unknown): value is DataSource {
  if (typeof value !== 'object' || value === null) return false;
  const candidate = value as Partial<DataSource>;
  return typeof candidate.createQueryRunner === 'function' && typeof candidate.options === 'object';
}

function inventory(modules: ModulesContainer): string {
  const there = new Set<string>();
  for (const { providers } of modules.values()) {
    for (const [token, wrapper] of providers) {
      const named = typeof token === 'string' && token.endsWith('DataSource');
      if (token !== DataSource && !named && !isDataSource(wrapper.instance)) continue;
      there.add(token === DataSource ? 'the default one' : show(typeof token === 'symbol' ? String(token) : token));
    }
  }
  return there.size === 0 ? 'This application provides none.' : `This application provides: ${[...there].join(', ')}.`;
}

function line(asked: OutboxExtras['dataSource']): string {
  if (asked === undefined) {
    return "Import TypeOrmModule.forRoot({ … }) in the root module, or name another: forRoot({ …, dataSource: 'name' }). An application of another library gives its dataLayer.";
  }
  if (typeof asked === 'string') {
    return `Import TypeOrmModule.forRoot({ name: ${show(asked)}, … }) in the root module, or give the DataSource itself: forRoot({ …, dataSource }).`;
  }
  return 'Import the module that exports it: forRootAsync({ imports: [ThatModule], dataSource: TOKEN, … }).';
}
