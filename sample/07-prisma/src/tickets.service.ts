import { Injectable } from '@nestjs/common';
import { OutboxService } from 'nestjs-outbox';
import { PrismaService } from './prisma.service.js';
import { TicketSold } from './ticket-sold.event.js';

@Injectable()
export class TicketsService {
  constructor(
    private readonly prisma: PrismaService,
    private readonly outbox: OutboxService,
  ) {}

  /** The update locks the row before the enqueue, so that messages of a concert stand in the order of their transactions. */
  async sell(concert: string, guest: string): Promise<void> {
    await this.prisma.$transaction(
      async (tx) => {
        const { left } = await tx.concert.update({ where: { id: concert }, data: { left: { decrement: 1 } } });
        await this.outbox.enqueue(new TicketSold(concert, left, guest), { tx });
        if (left < 0) throw new Error(`${concert} is sold out`); // takes the message with it
      },
      { maxWait: 30_000, timeout: 30_000 }, // all guests come at once
    );
  }
}
