import type { DynamicModule } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { inProcess, OutboxModule, type TransportOption } from 'nestjs-outbox';
import { kafka } from 'nestjs-outbox/kafka';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { LEASE, settings } from './settings.js';
import { Article, Customer, Order } from './shop.entities.js';

/** The same in both processes; only one of them relays. */
export function shared(relay: boolean): DynamicModule[] {
  const { database, schema } = settings();
  return [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: database,
      schema,
      entities: [Order, Customer, Article],
      // For a demonstration only: production runs migrations, for these tables and for the outbox's.
      synchronize: !relay,
      poolSize: 16,
    }),
    OutboxModule.forRoot({
      relay,
      transports: { default: transport() },
      database: { setup: 'create', schema },
      lease: LEASE,
      publishTimeout: '1s',
    }),
  ];
}

/** Inert until a relay runs: the API loads no broker client. */
function transport(): TransportOption {
  const { kafka: brokers, rabbitmq: url, prefix } = settings();
  if (brokers !== undefined) {
    return kafka({ client: { clientId: 'shop', brokers: brokers.split(',') }, topicPrefix: prefix });
  }
  // The default exchange delivers to the queue whose name is the routing key.
  if (url !== undefined) return rabbitmq({ url, routingKey: (message) => prefix + message.topic });
  return inProcess();
}
