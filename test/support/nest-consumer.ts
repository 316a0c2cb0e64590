import { Controller, type INestMicroservice, type LoggerService, Module, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { MicroserviceOptions } from '@nestjs/microservices';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { DataSourceOptions } from 'typeorm';
import { OutboxModule, type TransportOption } from '../../lib/index.js';
import type { TestDatabase } from './databases.js';

/** The producer: an application with an outbox, whose relay publishes at once. */
export function startProducer(database: TestDatabase, transport: TransportOption): Promise<TestingModule> {
  const outbox = OutboxModule.forRoot({
    transports: { default: transport },
    database: { setup: 'create' },
    pollInterval: 50,
    logLevel: 'silent',
  });
  const imports = [TypeOrmModule.forRoot(database.options as DataSourceOptions), outbox];
  return Test.createTestingModule({ imports })
    .setLogger(false as never)
    .compile()
    .then((app) => app.init());
}

/** What a Nest application writes into its log. */
export class LogLines implements LoggerService {
  readonly lines: string[] = [];
  readonly log = (): void => undefined;
  readonly warn = (line: unknown): void => this.keep('warn', line);
  readonly error = (line: unknown): void => this.keep('error', line);

  keep(level: string, line: unknown): void {
    this.lines.push(`${level} ${line instanceof Error ? line.message : String(line)}`);
  }
}

/** The consumer: a Nest microservice with one controller, which is decorated here. */
export async function startConsumer(
  controller: Type,
  options: MicroserviceOptions,
  logger: LoggerService | false = false,
): Promise<INestMicroservice> {
  class ConsumerModule {}
  Controller()(controller);
  Module({ controllers: [controller] })(ConsumerModule);
  const app = await NestFactory.createMicroservice<MicroserviceOptions>(ConsumerModule, { ...options, logger });
  await app.listen();
  return app;
}
