import { OutboxEvent } from 'nestjs-outbox';

/** The type is also the pattern by which the consumer listens. */
@OutboxEvent({ type: 'order.placed', key: (event) => event.customer })
export class OrderPlaced {
  constructor(
    readonly orderId: string,
    readonly customer: string,
    readonly total: number,
  ) {}
}
