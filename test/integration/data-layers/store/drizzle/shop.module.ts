import { Module, type OnApplicationShutdown } from '@nestjs/common';
import { inProcess, OutboxModule } from 'nestjs-outbox';
import { dataLayer, db } from './database.js';
import { Mailer } from './mailer.js';
import { OrdersService } from './orders.service.js';
import { Stock } from './stock.js';

@Module({
  imports: [OutboxModule.forRoot({ dataLayer, transports: { default: inProcess() }, database: { schema: 'outbox' } })],
  providers: [OrdersService, Mailer, Stock],
})
export class ShopModule implements OnApplicationShutdown {
  async onApplicationShutdown(): Promise<void> {
    await db.$client.end();
  }
}
