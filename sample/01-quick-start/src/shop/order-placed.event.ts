import { OutboxEvent } from 'nestjs-outbox';

/** Orders of one customer are published in the order in which they were placed. */
@OutboxEvent({ type: 'order.placed', topic: 'orders', key: (event) => event.customer })
export class OrderPlaced {
  constructor(
    readonly orderId: string,
    readonly customer: string,
    readonly number: number,
    readonly sku: string,
    readonly quantity: number,
    readonly total: number,
  ) {}
}
