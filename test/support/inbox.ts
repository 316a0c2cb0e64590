import { Module, type DynamicModule, type INestMicroservice, type Provider, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { MicroserviceOptions } from '@nestjs/microservices';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxModule, InboxService, type InboxOptions } from 'nestjs-outbox/inbox';
import { DataSource, EntitySchema, type DataSourceOptions, type EntityManager } from 'typeorm';
import type { TestDatabase } from './databases.js';

/** What handlers write: nothing in the table prevents that an effect is there twice. */
export const EFFECTS = new EntitySchema<{ number: number; handler: string; message: string }>({
  name: 'effects',
  columns: {
    number: { type: 'int', primary: true, generated: true },
    handler: { type: 'varchar' },
    message: { type: 'varchar' },
  },
});

/** Writes in the transaction of the handler with `@Idempotent()` that is being run. */
export async function takeEffect(tx: object, handler: string, message: string): Promise<void> {
  await (tx as EntityManager).insert(EFFECTS, { handler, message });
}

export interface InboxConsumer {
  readonly controllers: readonly Type[];
  readonly providers?: readonly Provider[];
  readonly inbox?: InboxOptions;
  /** Its outbox. */
  readonly outbox?: DynamicModule;
}

/** The application of a consumer: TypeORM, an inbox with its tables, and an outbox where it is given. */
export function consumerModule(database: TestDatabase, consumer: InboxConsumer): Type {
  const { controllers, providers = [], inbox, outbox } = consumer;
  class ConsumerModule {}
  Module({
    imports: [
      TypeOrmModule.forRoot({ ...(database.options as DataSourceOptions), entities: [EFFECTS], synchronize: true }),
      InboxModule.forRoot({ database: { setup: 'create' }, ...inbox }),
      ...(outbox === undefined ? [] : [outbox]),
    ],
    controllers: [...controllers],
    providers: [...providers],
  })(ConsumerModule);
  return ConsumerModule;
}

export async function startInboxConsumer(
  database: TestDatabase,
  consumer: InboxConsumer,
  server: MicroserviceOptions,
): Promise<INestMicroservice> {
  const module = consumerModule(database, consumer);
  const app = await NestFactory.createMicroservice<MicroserviceOptions>(module, { ...server, logger: false });
  await app.listen();
  return app;
}

/** @returns `handler message` of each effect, in order */
export async function effectsOf(app: { get(type: typeof DataSource): DataSource }): Promise<string[]> {
  const found = await app.get(DataSource).manager.find(EFFECTS, { order: { number: 'ASC' } });
  return found.map(({ handler, message }) => `${handler} ${message}`);
}

/** Repetitions that an inbox has seen, by consumer. */
export async function duplicatesOf(app: { get(type: typeof InboxService): InboxService }): Promise<object> {
  const stats = await app.get(InboxService).stats();
  return Object.fromEntries(stats.map(({ consumer, duplicates }) => [consumer, duplicates]));
}
