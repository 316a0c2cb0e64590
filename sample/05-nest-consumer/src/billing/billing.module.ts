import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxModule } from 'nestjs-outbox/inbox';
import { BillingController } from './billing.controller.js';
import { Invoice } from './billing.entities.js';
import { Faults } from './faults.js';

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: process.env['DATABASE_URL'] ?? '',
      entities: [Invoice],
      synchronize: true,
    }),
    InboxModule.forRoot({ database: { setup: 'create' } }),
  ],
  controllers: [BillingController],
  providers: [Faults],
})
export class BillingModule {}
