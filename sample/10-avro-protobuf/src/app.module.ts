import { type DynamicModule, Injectable, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { inProcess, OnOutboxEvent, OutboxModule } from 'nestjs-outbox';
import { protobufReader, schemaSerializer } from './schema-serializer.js';
import { Wire } from './wire.js';

/** In the same process: of each type all versions, as the newest has them. */
@Injectable()
export class Ledger {
  readonly entries: unknown[] = [];

  @OnOutboxEvent({ type: 'order.placed' })
  @OnOutboxEvent({ type: 'parcel.sent' })
  write(event: unknown): void {
    this.entries.push(event);
  }
}

@Module({})
export class AppModule {
  static with(database: string, schema: string): DynamicModule {
    return {
      module: AppModule,
      imports: [
        TypeOrmModule.forRoot({ type: 'postgres', url: database, schema }),
        OutboxModule.forRoot({
          database: { setup: 'create', schema },
          transports: { default: Wire, local: inProcess() },
          serializer: [schemaSerializer, protobufReader],
        }),
      ],
      providers: [Ledger, Wire],
    };
  }
}
