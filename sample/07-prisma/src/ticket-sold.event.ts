import { OutboxEvent } from 'nestjs-outbox';

/** Goes to the box office over RabbitMQ, and to a handler in the process; in order for each concert. */
@OutboxEvent({
  type: 'ticket.sold',
  topic: 'tickets',
  key: (event) => event.concert,
  transport: ['default', 'local'],
})
export class TicketSold {
  constructor(
    readonly concert: string,
    readonly left: number,
    readonly guest: string,
  ) {}
}
