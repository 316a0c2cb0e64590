import { OutboxEvent } from 'nestjs-outbox';

@OutboxEvent({ type: 'order.placed', key: (event) => event.customer })
export class OrderPlaced {
  constructor(
    readonly customer: string,
    readonly number: number,
  ) {}
}

/** With the key of the order: it comes after it. */
@OutboxEvent({ type: 'coupon.redeemed', key: (event) => event.customer })
export class CouponRedeemed {
  constructor(
    readonly customer: string,
    readonly number: number,
    readonly code: string,
  ) {}
}
