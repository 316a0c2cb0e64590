import type { FactoryProvider, InjectionToken } from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';
import type { OutboxExtras } from '../../outbox.options.js';
import type { DataLayer } from '../../transaction/data-layer.js';
import { dataSourceTokens, pickDataSource } from './data-source.js';
import { TypeOrm } from './typeorm.js';

/** Provides what finds the data layer of this DataSource, once it is needed. */
export function typeOrmProvider(token: InjectionToken, asked: OutboxExtras['dataSource']): FactoryProvider {
  const dataSources = dataSourceTokens(asked).map((dataSource) => ({ token: dataSource, optional: true }));
  return {
    provide: token,
    inject: dataSources,
    useFactory:
      (...injected: unknown[]) =>
      (modules: ModulesContainer): DataLayer =>
        new TypeOrm(pickDataSource(asked, injected, modules)),
  };
}
