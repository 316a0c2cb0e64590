import { OutboxEvent } from 'nestjs-outbox';

/** Its key keeps the reservations of an item in the order in which they were made. */
@OutboxEvent({ type: 'item.reserved', topic: 'stock', key: (event) => event.item })
export class ItemReserved {
  constructor(
    readonly item: string,
    readonly left: number,
    readonly buyer: string,
  ) {}
}
