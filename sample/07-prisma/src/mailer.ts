import { Injectable } from '@nestjs/common';
import { OnOutboxEvent, type OutboxMessage } from 'nestjs-outbox';
import { PrismaService } from './prisma.service.js';
import { TicketSold } from './ticket-sold.event.js';

@Injectable()
export class Mailer {
  constructor(private readonly prisma: PrismaService) {}

  /** After the commit, at least once: the message's id tells a repetition. */
  @OnOutboxEvent(TicketSold)
  async send({ concert, guest }: TicketSold, { id: messageId }: OutboxMessage): Promise<void> {
    await this.prisma.mail.createMany({ data: [{ messageId, concert, guest }], skipDuplicates: true });
  }
}
