import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { inProcess, OutboxModule } from 'nestjs-outbox';
import { OrderRow, ProductRow } from './entities.js';
import { Mailer } from './mailer.js';
import { OrdersService } from './orders.service.js';
import { Stock } from './stock.js';

const url = process.env['DATABASE_URL']!;

@Module({
  imports: [
    TypeOrmModule.forRoot({ type: 'postgres', url, entities: [OrderRow, ProductRow] }),
    OutboxModule.forRoot({ transports: { default: inProcess() }, database: { schema: 'outbox' } }),
  ],
  providers: [OrdersService, Mailer, Stock],
})
export class ShopModule {}
