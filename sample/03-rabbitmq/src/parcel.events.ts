import { OutboxEvent } from 'nestjs-outbox';

/** The topic is the routing key. */
@OutboxEvent({
  type: 'parcel.sent',
  topic: (event) => `parcel.sent.${event.country}`,
  key: (event) => event.parcelId,
  options: (event) => ({ rabbitmq: { priority: event.express ? 5 : 0 } }),
})
export class ParcelSent {
  constructor(
    readonly parcelId: string,
    readonly country: string,
    readonly express: boolean,
  ) {}
}
