import { Injectable } from '@nestjs/common';
import { OnOutboxEvent } from 'nestjs-outbox';
import type { Order } from './order.js';

@Injectable()
export class Mailer {
  /** In place of mails. */
  readonly sent: string[] = [];

  @OnOutboxEvent({ type: 'order.placed' })
  confirm({ id }: Order): void {
    this.sent.push(id);
  }
}
