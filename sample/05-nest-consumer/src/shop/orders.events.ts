import { OutboxEvent } from 'nestjs-outbox';

/** The type is the pattern of the consumer's handler, the topic the routing key by which its queue is bound. */
@OutboxEvent({ type: 'order.placed', topic: 'orders', key: (event) => event.orderId })
export class OrderPlaced {
  constructor(
    readonly orderId: string,
    readonly total: number,
  ) {}
}

/** With the same key: it arrives behind the order. */
@OutboxEvent({ type: 'order.paid', topic: 'orders', key: (event) => event.orderId })
export class OrderPaid {
  constructor(
    readonly orderId: string,
    readonly amount: number,
  ) {}
}
