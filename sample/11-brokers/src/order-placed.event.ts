import { OutboxEvent } from 'nestjs-outbox';

/** The topic is the end of a subject, a stream, a queue or a topic: as the broker calls it. */
@OutboxEvent({ type: 'order.placed', topic: 'orders', key: ({ customer }) => customer })
export class OrderPlaced {
  constructor(
    readonly customer: string,
    readonly number: number,
  ) {}
}
