// @tier gate
import 'reflect-metadata';
import { Controller, Injectable, type INestMicroservice } from '@nestjs/common';
import { EventPattern, Payload, Transport, type MicroserviceOptions } from '@nestjs/microservices';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { outboxDeserializer, Received, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { InboxService } from 'nestjs-outbox/inbox';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { ClientRMQ } from '@nestjs/microservices';
import type { DataSourceOptions } from 'typeorm';
import {
  compressed,
  inProcess,
  OnOutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type Serializer,
} from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { startInboxConsumer } from '../../support/inbox.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

const ORDER = { id: 1, lines: Array.from({ length: 500 }, (_, n) => `line ${n}`), ratio: 1e21 };
let received: { data: unknown; message: ReceivedMessage | undefined }[];
let handled: { event: unknown; message: OutboxMessage }[];

@Controller()
class Door {
  constructor(private readonly inbox: InboxService) {}

  @EventPattern(['order.placed', 'orders'])
  async on(@Payload() data: unknown, @Received() message: ReceivedMessage | undefined): Promise<void> {
    if (message?.type === 'order.placed') await this.inbox.receive(message);
    received.push({ data, message });
  }
}
@Injectable()
class Orders {
  @OnOutboxEvent({ type: 'order.placed' })
  placed(event: unknown, message: OutboxMessage): void {
    handled.push({ event, message });
  }
}

describeWith(['postgres', 'rabbitmq'], 'compressed payloads on RabbitMQ', () => {
  const open: (INestMicroservice | TestingModule)[] = [];
  let [exchange, queue]: string[] = [];
  let databases: TestDatabase[];
  let observer: RabbitMqObserver;
  const url = requiredUrl('rabbitmq');

  beforeEach(async () => {
    [received, handled] = [[], []];
    databases = [await createTestDatabase('postgres'), await createTestDatabase('postgres')];
    observer = await RabbitMqObserver.connect(url);
    [exchange, queue] = [await observer.exchange(), await observer.queue()];
    await observer.channel.bindQueue(queue, exchange, '#');
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
    await observer.close();
    for (const database of databases) await database.drop();
  });

  const start = async (serializer?: Serializer): Promise<OutboxService> => {
    const client = new ClientRMQ({ urls: [url], queue: queue as string, queueOptions: { durable: true } });
    const producer = await Test.createTestingModule({
      imports: [
        TypeOrmModule.forRoot(databases[0]!.options as DataSourceOptions),
        OutboxModule.forRoot({
          transports: { default: rabbitmq({ url, exchange: exchange as string }), nest: clientProxy({ client }) },
          ...{ serializer: compressed(), database: { setup: 'create' }, pollInterval: 50, logLevel: 'silent' },
        }),
      ],
    })
      .setLogger(false as never)
      .compile();
    open.push(await producer.init());
    const server: MicroserviceOptions = {
      transport: Transport.RMQ,
      options: {
        urls: [url],
        queue: queue as string,
        queueOptions: { durable: true },
        deserializer: outboxDeserializer(),
      },
    };
    const own = OutboxModule.forRoot({
      ...{ transports: { default: inProcess() }, ...(serializer && { serializer }) },
      ...{ pollInterval: 50, database: { setup: 'create' }, logLevel: 'silent' },
    });
    const consumer = { controllers: [Door], providers: [Orders], outbox: own };
    open.push(await startInboxConsumer(databases[1]!, consumer, server));
    return producer.get(OutboxService);
  };

  it.each([
    ['without a serializer of its own', undefined],
    ['that compresses, too', compressed()],
  ])('reach @Received(), and through inbox.receive() the handlers of an outbox %s', async (_, serializer) => {
    const outbox = await start(serializer);
    const headers = { tenant: 'a' };
    await outbox.enqueueOutsideTransaction({ type: 'order.placed', key: 'k', payload: ORDER, headers });
    await until(() => handled.length === 1);
    expect(received).toEqual([{ data: undefined, message: expect.objectContaining({ contentEncoding: 'gzip' }) }]);
    expect(received[0]?.message?.payload).toEqual(ORDER);
    expect(received[0]?.message?.bytes?.length).toBeLessThan(JSON.stringify(ORDER).length / 3);
    const [{ event, message }] = handled as [(typeof handled)[number]];
    expect(event).toEqual(ORDER);
    expect({ ...message.headers }).toEqual(headers);
    expect(String(message.payload)).toBe(JSON.stringify(ORDER));
  });

  it('are values again through a Nest client', async () => {
    const outbox = await start();
    const headers = { tenant: 'a' };
    await outbox.enqueueOutsideTransaction({ type: 'x', topic: 'orders', transport: 'nest', payload: ORDER, headers });
    await until(() => received.length === 1);
    expect(received[0]?.data).toEqual(ORDER);
    expect(received[0]?.message?.headers).toMatchObject(headers);
    expect(received[0]?.message?.headers).not.toHaveProperty('content-encoding');
  });
});
