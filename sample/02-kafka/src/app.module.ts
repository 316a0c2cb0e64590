import { type DynamicModule, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule } from 'nestjs-outbox';
import { kafka } from 'nestjs-outbox/kafka';
import { Account } from './account.entity.js';
import { AccountsService } from './accounts.service.js';

export interface Settings {
  readonly database: string;
  readonly schema: string;
  readonly brokers: string[];
  readonly topicPrefix: string;
}

/** One process does both here: it enqueues, and it relays. */
@Module({})
export class AppModule {
  static with({ database, schema, brokers, topicPrefix }: Settings): DynamicModule {
    return {
      module: AppModule,
      imports: [
        TypeOrmModule.forRoot({ type: 'postgres', url: database, schema, entities: [Account], synchronize: true }),
        OutboxModule.forRootAsync({
          useFactory: () => ({
            database: { setup: 'create', schema },
            transports: {
              default: kafka({ client: { clientId: 'bank', brokers }, compression: 'gzip', topicPrefix }),
            },
          }),
        }),
      ],
      providers: [AccountsService],
    };
  }
}
