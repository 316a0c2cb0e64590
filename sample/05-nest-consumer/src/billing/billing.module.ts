import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { BillingController } from './billing.controller.js';
import { HandledMessage, Invoice } from './billing.entities.js';
import { Faults } from './faults.js';

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: process.env['DATABASE_URL'] ?? '',
      entities: [HandledMessage, Invoice],
      synchronize: true,
    }),
  ],
  controllers: [BillingController],
  providers: [Faults],
})
export class BillingModule {}
