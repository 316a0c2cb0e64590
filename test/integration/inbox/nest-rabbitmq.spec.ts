// @tier gate
import 'reflect-metadata';
import { Controller, Injectable, UseInterceptors } from '@nestjs/common';
import type { CallHandler, ExecutionContext, INestMicroservice, NestInterceptor } from '@nestjs/common';
import { Ctx, EventPattern, Payload, RmqContext, Transport, type MicroserviceOptions } from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';
import type { ConsumeMessage } from 'amqplib';
import { outboxDeserializer, Received, receivedMessage, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { Idempotent, InboxService } from 'nestjs-outbox/inbox';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { finalize, mergeMap, throwError, toArray, type Observable } from 'rxjs';
import { OutboxDispatcher, OutboxModule, OutboxService, type PlainMessage } from '../../../lib/index.js';
import { AcknowledgeInterceptor } from '../../../sample/05-nest-consumer/src/billing/acknowledge.interceptor.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { duplicatesOf, effectsOf, startInboxConsumer, takeEffect } from '../../support/inbox.js';
import { startProducer } from '../../support/nest-consumer.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeOnFewer, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

/** Handler and message of each delivery that has ended: it is acknowledged, or given back. */
let deliveries: string[];
/** How many effects more fail, of each of two handlers; which messages have failed behind their commit. */
let failing: { placed: number; told: number; behind: Set<string> };

/** The outermost. */
@Injectable()
class DeliveriesInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const ended = (): void => void deliveries.push(`${context.getHandler().name} ${idIn(context)}`);
    return next.handle().pipe(finalize(ended));
  }
}
const idIn = (context: ExecutionContext): string =>
  (receivedMessage(context.switchToRpc().getContext<RmqContext>()) as ReceivedMessage).id;

/** Fails each message once behind the commit of its handler: the acknowledgement never happens, and it is delivered again. */
@Injectable()
class ForgetfulInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const id = idIn(context);
    return next.handle().pipe(
      toArray(),
      mergeMap((values) => {
        const isFirst = !failing.behind.has(id);
        failing.behind.add(id);
        return isFirst ? throwError(() => new Error('not acknowledged')) : values;
      }),
    );
  }
}

@Controller()
@UseInterceptors(DeliveriesInterceptor, AcknowledgeInterceptor, ForgetfulInterceptor)
class Billing {
  constructor(
    private readonly inbox: InboxService,
    private readonly outbox: OutboxService,
  ) {}

  @EventPattern<string>('order.placed')
  @Idempotent()
  async placed(@Payload() order: { to: string }, @Received() { id }: ReceivedMessage): Promise<void> {
    await takeEffect(this.inbox.tx, 'placed', id);
    await this.outbox.enqueue({ type: 'invoice.made', topic: order.to, key: 'k', payload: { of: id } });
    failing.placed -= 1;
    if (failing.placed >= 0) throw new Error('not yet');
  }

  @EventPattern<string>('order.paid')
  @Idempotent({ consumer: 'payments' })
  async paid(@Payload() order: { to: string }, @Ctx() context: RmqContext): Promise<void> {
    const id = String((context.getMessage() as ConsumeMessage).properties.messageId);
    await takeEffect(this.inbox.tx, 'paid', id);
    await this.outbox.enqueue({ type: 'receipt.made', topic: order.to, key: 'k', payload: { of: id } });
  }
}

@Controller()
@UseInterceptors(DeliveriesInterceptor, AcknowledgeInterceptor)
class Parcels {
  constructor(private readonly inbox: InboxService) {}

  @EventPattern<string>('order.sent')
  @Idempotent()
  async sent(@Received() { id }: ReceivedMessage): Promise<void> {
    await takeEffect(this.inbox.tx, 'sent', id);
  }
}

@Controller()
@UseInterceptors(DeliveriesInterceptor, AcknowledgeInterceptor)
class Mail {
  constructor(private readonly inbox: InboxService) {}

  @EventPattern<string>('order.sent')
  @Idempotent()
  async told(@Received() { id }: ReceivedMessage): Promise<void> {
    await takeEffect(this.inbox.tx, 'told', id);
    failing.told -= 1;
    if (failing.told >= 0) throw new Error('not yet');
  }
}

describeOnFewer(['postgres', 'rabbitmq'], 'a Nest microservice on RabbitMQ with an inbox', (kind) => {
  const open: (INestMicroservice | TestingModule)[] = [];
  const databases: TestDatabase[] = [];
  let observer: RabbitMqObserver;
  let [staging, queue, out]: string[] = [];
  let app: INestMicroservice;
  let outbox: OutboxService;

  beforeAll(async () => {
    databases.push(await createTestDatabase('postgres'), await createTestDatabase(kind));
  });
  beforeEach(async () => {
    deliveries = [];
    failing = { placed: 0, told: 0, behind: new Set() };
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    const exchange = await observer.exchange();
    [staging, queue, out] = [await observer.queue(), await observer.queue(), await observer.queue()];
    await observer.channel.bindQueue(staging as string, exchange, '#');
    const [shop, billing] = databases as [TestDatabase, TestDatabase];
    const producer = await startProducer(shop, rabbitmq({ url: requiredUrl('rabbitmq'), exchange }));
    outbox = producer.get(OutboxService);
    const server: MicroserviceOptions = {
      transport: Transport.RMQ,
      options: {
        urls: [requiredUrl('rabbitmq')],
        ...{ queue: queue as string, queueOptions: { durable: true }, noAck: false, prefetchCount: 1 },
        deserializer: outboxDeserializer(),
      },
    };
    const own = OutboxModule.forRoot({
      transports: { default: rabbitmq({ url: requiredUrl('rabbitmq') }) },
      ...{ relay: 'manual', database: { setup: 'create' }, logLevel: 'silent' },
    });
    app = await startInboxConsumer(billing, { controllers: [Billing, Parcels, Mail], outbox: own }, server);
    open.push(app, producer);
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
    await observer.close();
  });
  afterAll(async () => {
    for (const database of databases.splice(0)) await database.drop();
  });

  /** Published by a relay, and then as often again as it takes to be there `times` times. */
  const publish = async (type: string, count: number, times = 1): Promise<string[]> => {
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1)
      ids.push(await outbox.enqueueOutsideTransaction({ type, key: 'k', payload: { to: out } } as PlainMessage));
    for (const { content, properties } of await observer.received(staging as string, count))
      for (let n = 0; n < times; n += 1) observer.channel.sendToQueue(queue as string, content, properties);
    return ids;
  };
  const delivered = async (count: number): Promise<void> => {
    await until(() => deliveries.length >= count);
    expect(deliveries).toHaveLength(count);
  };
  const closed = async (): Promise<number> => {
    await app.close();
    open.splice(open.indexOf(app), 1);
    return observer.depth(queue as string);
  };
  /** What the relay of the consumer publishes. */
  const answers = async (): Promise<unknown[]> => {
    await app.get(OutboxDispatcher).drain();
    const depth = await observer.depth(out as string);
    const messages = await observer.received(out as string, depth);
    return messages.map(({ content }) => (JSON.parse(content.toString()) as { of: unknown }).of);
  };

  it.each([
    ['@Received()', 'order.placed', 'placed', 'Billing.placed'],
    ['@Ctx()', 'order.paid', 'paid', 'payments'],
  ])(
    'has the effect of each message once, and what it enqueues, by %s: published twice, and given back behind the commit',
    async (_, type, handler, consumer) => {
      const ids = await publish(type, 3, 2);
      await delivered(9);
      expect(await duplicatesOf(app)).toMatchObject({ [consumer]: 6 });
      const effects = (await effectsOf(app)).filter((each) => each.startsWith(handler));
      expect(effects).toEqual(ids.map((id) => `${handler} ${id}`));
      expect(await answers()).toEqual(ids);
      expect(await closed()).toBe(0);
    },
  );

  it('delivers again what a handler failed at, whose first effect leaves nothing', async () => {
    failing.placed = 2;
    const [id] = await publish('order.placed', 1);
    await delivered(4); // twice in the effect, once behind it
    expect((await effectsOf(app)).filter((each) => each.endsWith(id as string))).toEqual([`placed ${id}`]);
    expect(await answers()).toEqual([id]);
    expect(await closed()).toBe(0);
  });

  it('has the effect of both handlers of one event, each once, when one of them fails', async () => {
    failing.told = 1;
    const [id] = await publish('order.sent', 1, 2);
    await delivered(6);
    expect(await duplicatesOf(app)).toMatchObject({ 'Parcels.sent': 2, 'Mail.told': 1 });
    const effects = (await effectsOf(app)).filter((each) => each.endsWith(id as string));
    expect(effects.sort()).toEqual([`sent ${id}`, `told ${id}`]);
    expect(await closed()).toBe(0);
  });
});
