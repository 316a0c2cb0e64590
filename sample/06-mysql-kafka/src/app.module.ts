import { type DynamicModule, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule } from 'nestjs-outbox';
import { kafka } from 'nestjs-outbox/kafka';
import { outboxMigrations } from 'nestjs-outbox/typeorm';
import { Item } from './item.entity.js';
import { StockService } from './stock.service.js';

export interface Settings {
  readonly database: URL;
  readonly brokers: string[];
  readonly topicPrefix: string;
}

/** The tables come from a migration, as in production. */
@Module({})
export class AppModule {
  static with({ database, brokers, topicPrefix }: Settings): DynamicModule {
    return {
      module: AppModule,
      imports: [
        TypeOrmModule.forRoot({
          type: database.protocol === 'mariadb:' ? 'mariadb' : 'mysql',
          url: database.href,
          timezone: 'Z',
          entities: [Item],
          synchronize: true,
          migrations: outboxMigrations(),
          migrationsRun: true,
        }),
        OutboxModule.forRoot({
          transports: { default: kafka({ client: { clientId: 'stock', brokers }, topicPrefix }) },
          onPublished: 'archive',
        }),
      ],
      providers: [StockService],
    };
  }
}
