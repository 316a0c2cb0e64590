import { Injectable } from '@nestjs/common';
import { InboxService } from 'nestjs-outbox/inbox';
import { Invoice } from './entities.js';
import type { OrderPlaced } from './order-placed.event.js';

/** The other side, which might be another application: it knows the broker, and no outbox. */
@Injectable()
export class Billing {
  deliveries = 0;

  constructor(private readonly inbox: InboxService) {}

  /** What comes again has no effect: the inbox knows its id. */
  async handle(id: string, body: string): Promise<void> {
    this.deliveries += 1;
    const { customer, number } = JSON.parse(body) as OrderPlaced;
    await this.inbox.once(id, (tx) => tx.insert(Invoice, { customer, number }));
  }
}
