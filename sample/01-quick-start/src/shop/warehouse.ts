import { appendFile } from 'node:fs/promises';
import { Injectable } from '@nestjs/common';
import { OnOutboxEvent, OutboxMessage } from 'nestjs-outbox';
import { OrderPlaced } from './order-placed.event.js';
import { settings } from './settings.js';

/** Without a broker, messages go to handlers in the relay's process. This one writes down every order it is told of. */
@Injectable()
export class Warehouse {
  @OnOutboxEvent(OrderPlaced)
  async pack(event: OrderPlaced, message: OutboxMessage): Promise<void> {
    const line = { id: message.id, key: message.key, type: message.type, payload: event };
    await appendFile(settings().ledger, `${JSON.stringify(line)}\n`);
  }
}
