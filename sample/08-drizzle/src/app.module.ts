import { Module } from '@nestjs/common';
import { inProcess, OutboxModule } from 'nestjs-outbox';
import { Database } from './database.js';
import { Letters } from './letters.js';
import { OUTBOX } from './migrate.js';
import { OrdersService } from './orders.service.js';

@Module({ providers: [Database], exports: [Database] })
export class DatabaseModule {}

@Module({
  imports: [
    DatabaseModule,
    OutboxModule.forRootAsync({
      imports: [DatabaseModule],
      inject: [Database],
      useFactory: ({ dataLayer }: Database) => ({
        dataLayer,
        transports: { default: inProcess() },
        database: { schema: OUTBOX },
      }),
    }),
  ],
  providers: [OrdersService, Letters],
})
export class AppModule {}
