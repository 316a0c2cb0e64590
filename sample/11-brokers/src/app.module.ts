import { type DynamicModule, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule, type TransportOption } from 'nestjs-outbox';
import { InboxModule } from 'nestjs-outbox/inbox';
import { Billing } from './billing.js';
import { Invoice, Order } from './entities.js';

@Module({})
export class AppModule {
  static with(url: string, schema: string, transport: TransportOption): DynamicModule {
    const entities = [Order, Invoice];
    return {
      module: AppModule,
      imports: [
        TypeOrmModule.forRoot({ type: 'postgres', url, schema, entities, synchronize: true }),
        OutboxModule.forRoot({ database: { setup: 'create', schema }, transports: { default: transport } }),
        InboxModule.forRoot({ database: { setup: 'create' } }),
      ],
      providers: [Billing],
    };
  }
}
