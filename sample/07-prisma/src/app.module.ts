import { type DynamicModule, Module } from '@nestjs/common';
import { inProcess, OutboxModule } from 'nestjs-outbox';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { SCHEMA } from './database.js';
import { Mailer } from './mailer.js';
import { dataLayerOf, PrismaService } from './prisma.service.js';
import { TicketsService } from './tickets.service.js';

@Module({ providers: [PrismaService], exports: [PrismaService] })
export class PrismaModule {}

export interface Settings {
  readonly broker: string;
  readonly queue: string;
}

@Module({})
export class AppModule {
  static with({ broker, queue }: Settings): DynamicModule {
    return {
      module: AppModule,
      imports: [
        PrismaModule,
        OutboxModule.forRootAsync({
          imports: [PrismaModule],
          inject: [PrismaService],
          useFactory: (prisma: PrismaService) => ({
            dataLayer: dataLayerOf(prisma),
            transports: { default: rabbitmq({ url: broker, routingKey: () => queue }), local: inProcess() },
            database: { schema: SCHEMA },
          }),
        }),
      ],
      providers: [TicketsService, Mailer],
    };
  }
}
