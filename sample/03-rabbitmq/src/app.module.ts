import { type DynamicModule, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule } from 'nestjs-outbox';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { Parcel } from './parcel.entity.js';
import { ParcelsService } from './parcels.service.js';

export interface Settings {
  readonly database: string;
  readonly schema: string;
  readonly broker: string;
  readonly exchange: string;
}

@Module({})
export class AppModule {
  static with({ database, schema, broker, exchange }: Settings): DynamicModule {
    return {
      module: AppModule,
      imports: [
        TypeOrmModule.forRoot({ type: 'postgres', url: database, schema, entities: [Parcel], synchronize: true }),
        OutboxModule.forRoot({
          database: { setup: 'create', schema },
          transports: {
            default: rabbitmq({
              url: broker,
              exchange,
              // Asserted at every connect; leave it out where the topology is somebody else's.
              topology: { assertExchange: [{ name: exchange, type: 'topic', options: { durable: true } }] },
            }),
          },
          // A message that no queue takes is returned by the broker and tried again.
          retry: { initial: '200ms', max: '1s' },
        }),
      ],
      providers: [ParcelsService],
    };
  }
}
