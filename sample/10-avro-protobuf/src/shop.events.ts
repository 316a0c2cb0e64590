import { OutboxEvent } from 'nestjs-outbox';
import { PROTOBUF } from './schema-serializer.js';

const transport = ['default', 'local'];

/** Avro, which is what the serializer says of itself. */
@OutboxEvent({ type: 'order.placed', version: 2, key: ({ orderId }) => orderId, transport })
export class OrderPlaced {
  constructor(
    readonly orderId: string,
    readonly total: number,
    readonly currency: string,
  ) {}
}

/** Of a process that has not been deployed anew yet. */
@OutboxEvent({ type: 'order.placed', version: 1, key: ({ orderId }) => orderId, transport })
export class OldOrderPlaced {
  constructor(
    readonly orderId: string,
    readonly total: number,
  ) {}
}

@OutboxEvent({ type: 'parcel.sent', version: 2, key: ({ orderId }) => orderId, transport, contentType: PROTOBUF })
export class ParcelSent {
  constructor(
    readonly orderId: string,
    readonly grams: number,
    readonly stops: readonly string[],
  ) {}
}

@OutboxEvent({ type: 'parcel.sent', version: 1, key: ({ orderId }) => orderId, transport, contentType: PROTOBUF })
export class OldParcelSent {
  constructor(
    readonly orderId: string,
    readonly grams: number,
  ) {}
}
