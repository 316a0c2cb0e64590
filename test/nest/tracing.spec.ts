// @tier gate
import { Controller, Inject, Injectable, Module, Param, Post, type INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Span } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  ParentBasedSampler,
  SimpleSpanProcessor,
  type ReadableSpan,
  type Sampler,
} from '@opentelemetry/sdk-trace-node';
import { DataSource } from 'typeorm';
import { inProcess, OnOutboxEvent, OutboxEvent, OutboxModule, OutboxService } from '../../lib/index.js';
import { OutboxTracing } from '../../lib/otel/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { Applications, build, quiet, typeOrm, until } from './support/app.js';

@OutboxEvent({ type: 'order.placed', topic: 'orders', key: (e) => e.orderId, transport: 'broker' })
class OrderPlaced {
  constructor(readonly orderId: string) {}
}
@OutboxEvent({ type: 'order.mailed', topic: 'mails', key: () => null, transport: 'local' })
class OrderMailed {
  constructor(readonly fails: boolean) {}
}

/** A root span is sampled when its name says so; every other is as its parent. */
const byName: Sampler = {
  shouldSample: (_context, _trace, name) => ({ decision: name.includes('unsampled') ? 0 : 2 }),
  toString: () => 'byName',
};
const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({
  sampler: new ParentBasedSampler({ root: byName }),
  spanProcessors: [new SimpleSpanProcessor(exporter)],
});
const tracer = provider.getTracer('test');

/** What an instrumentation of HTTP does around a request. */
async function request<T>(name: string, work: (span: Span) => Promise<T>): Promise<T> {
  return tracer.startActiveSpan(name, { kind: SpanKind.SERVER }, ROOT_CONTEXT, async (span) => {
    try {
      return await work(span);
    } finally {
      span.end();
    }
  });
}

const inHandler: { readonly traceId: string | undefined; readonly sampled: boolean }[] = [];

@Injectable()
class Mailer {
  @OnOutboxEvent(OrderMailed)
  async mail({ fails }: OrderMailed): Promise<void> {
    const found = trace.getSpanContext(context.active());
    inHandler.push({ traceId: found?.traceId, sampled: found?.traceFlags === 1 });
    tracer.startSpan('in the handler').end();
    if (fails) throw Object.assign(new Error('postgres://user:secret@host refused'), { code: 'NO_MAIL' });
  }
}

@Controller('orders')
class Orders {
  constructor(
    @Inject(DataSource) private readonly dataSource: DataSource,
    @Inject(OutboxService) private readonly outbox: OutboxService,
  ) {}

  @Post(':id')
  place(@Param('id') id: string): Promise<string> {
    return request(`POST /orders/${id}`, () =>
      this.dataSource.transaction((manager) => this.outbox.enqueue(new OrderPlaced(id), { manager })),
    );
  }
}
@Module({ controllers: [Orders] })
class OrdersModule {}

const tracing = {
  provide: OutboxTracing,
  inject: [OutboxService],
  useFactory: (outbox: OutboxService) => OutboxTracing.start(outbox),
};

describeWith(['postgres', 'rabbitmq'], 'an application that is traced', () => {
  let database: TestDatabase;
  let observer: RabbitMqObserver;
  let queue: string;
  let app: INestApplication;
  let outbox: OutboxService;
  let dataSource: DataSource;
  const applications = new Applications();

  beforeAll(async () => {
    provider.register();
    database = await createTestDatabase('postgres');
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    queue = await observer.queue();
    const options = quiet({
      transports: {
        broker: rabbitmq({ url: requiredUrl('rabbitmq'), exchange: '', routingKey: () => queue }),
        local: inProcess(),
      },
      defaultTransport: 'broker',
      retry: { maxAttempts: 2, initial: 10, max: 20 },
    });
    const compiled = await build(
      [typeOrm(database), OutboxModule.forRoot(options), OrdersModule],
      [Mailer, tracing],
    ).compile();
    app = compiled.createNestApplication(new ExpressAdapter(), { logger: false });
    applications.open.push(app);
    await app.listen(0, '127.0.0.1');
    outbox = app.get(OutboxService);
    dataSource = app.get(DataSource);
    await observer.consume(queue);
  });
  afterAll(async () => {
    await applications.close();
    await observer?.close();
    await database?.drop();
    await provider.shutdown();
    trace.disable();
    context.disable();
    propagation.disable();
  });
  beforeEach(() => {
    exporter.reset();
    inHandler.length = 0;
  });

  const post = async (id: string): Promise<string> => {
    const { port } = app.getHttpServer().address() as { port: number };
    const answer = await fetch(`http://127.0.0.1:${port}/orders/${id}`, { method: 'POST' });
    expect(answer.status).toBe(201);
    return answer.text();
  };
  const named = (name: string): readonly ReadableSpan[] =>
    exporter.getFinishedSpans().filter((span) => span.name === name);
  const whenNamed = async (name: string, count = 1): Promise<readonly ReadableSpan[]> => {
    await until(() => named(name).length >= count);
    return named(name);
  };
  /** As a consumer does it with whatever instrumentation it has. */
  const consume = async (id: string): Promise<ReadableSpan> => {
    const arrived = (): { headers: object } | undefined =>
      seen.find(({ properties }) => properties['messageId'] === id || headersOf(properties)['id'] === id)
        ?.properties as never;
    let seen = await observer.received(queue, 1);
    await until(async () => {
      seen = await observer.received(queue, 1);
      return arrived() !== undefined;
    });
    const parent = propagation.extract(ROOT_CONTEXT, arrived()!.headers);
    tracer.startSpan(`consume ${id}`, { kind: SpanKind.CONSUMER }, parent).end();
    return named(`consume ${id}`)[0]!;
  };
  const headersOf = (properties: Record<string, unknown>) => (properties['headers'] ?? {}) as Record<string, unknown>;

  it('has one trace from the request over the enqueue and the publish to the consumer', async () => {
    const id = await post('one');
    await whenNamed('send orders');
    const consumed = await consume(id);
    const [[http], [created], [sent]] = [named('POST /orders/one'), named('create orders'), named('send orders')];
    expect(new Set([http, created, sent, consumed].map((span) => span!.spanContext().traceId)).size).toBe(1);
    expect(created).toMatchObject({
      kind: SpanKind.PRODUCER,
      parentSpanContext: { spanId: http!.spanContext().spanId },
    });
    expect(created!.attributes).toEqual({
      'messaging.operation.name': 'create',
      'messaging.operation.type': 'create',
      'messaging.system': 'rabbitmq',
      'messaging.destination.name': 'orders',
      'messaging.message.id': id,
      'outbox.message.type': 'order.placed',
    });
    const { spanId } = created!.spanContext();
    expect(sent).toMatchObject({
      kind: SpanKind.CLIENT,
      parentSpanContext: { spanId },
      links: [{ context: { spanId } }],
      status: { code: SpanStatusCode.UNSET },
      attributes: { 'messaging.operation.type': 'send', 'messaging.message.id': id, 'outbox.transport': 'broker' },
    });
    expect(consumed.parentSpanContext?.spanId).toBe(spanId);
  });

  it('keeps the contexts of requests at once apart, and of messages of one call', async () => {
    const ids = await Promise.all(['a', 'b', 'c', 'd'].map(post));
    await whenNamed('send orders', 4);
    for (const [at, order] of ['a', 'b', 'c', 'd'].entries()) {
      const { traceId } = named(`POST /orders/${order}`)[0]!.spanContext();
      const spans = exporter.getFinishedSpans().filter((span) => span.attributes['messaging.message.id'] === ids[at]);
      expect(spans.map((span) => [span.name, span.spanContext().traceId])).toEqual([
        ['create orders', traceId],
        ['send orders', traceId],
      ]);
    }
    exporter.reset();
    await request('batch', () => outbox.enqueueOutsideTransaction([new OrderPlaced('x'), new OrderPlaced('y')]));
    await whenNamed('send orders', 2);
    const created = named('create orders').map((span) => span.spanContext().spanId);
    expect(new Set(named('send orders').map((span) => span.parentSpanContext?.spanId))).toEqual(new Set(created));
  });

  it('makes no span of what was not sampled, in the relay and in handlers too, and consumers hear of it', async () => {
    const id = await request('unsampled', () => outbox.enqueueOutsideTransaction(new OrderPlaced('u')));
    await request('unsampled', () => outbox.enqueueOutsideTransaction(new OrderMailed(false)));
    expect(await consume(id)).toBeUndefined();
    await until(() => inHandler.length === 1);
    await post('after'); // whatever there was has gone out by now
    await whenNamed('send orders');
    expect(inHandler).toEqual([{ traceId: expect.stringMatching(/^[0-9a-f]{32}$/), sampled: false }]);
    const names = exporter.getFinishedSpans().map(({ name }) => name);
    expect(names.sort()).toEqual(['POST /orders/after', 'create orders', 'send orders']);
  });

  it('runs handlers in the trace of their message, and says which failed, without secrets', async () => {
    const traceId = await request('handled', async (span) => {
      await outbox.enqueueOutsideTransaction(new OrderMailed(false));
      return span.spanContext().traceId;
    });
    const [handled] = await whenNamed('process mails');
    const [created] = named('create mails');
    const { spanId } = created!.spanContext();
    expect(handled).toMatchObject({
      kind: SpanKind.CONSUMER,
      parentSpanContext: { spanId },
      links: [{ context: { spanId } }],
      attributes: {
        'messaging.system': 'nestjs_outbox',
        'messaging.destination.subscription.name': 'Mailer.mail',
        'outbox.transport': 'local',
      },
    });
    expect(inHandler).toEqual([{ traceId, sampled: true }]);
    expect(named('in the handler')[0]?.parentSpanContext?.spanId).toBe(handled!.spanContext().spanId);
    await request('fails', () => outbox.enqueueOutsideTransaction(new OrderMailed(true)));
    const [, first, second] = await whenNamed('process mails', 3);
    expect(first).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: expect.not.stringContaining('secret') },
      attributes: { 'error.type': 'NO_MAIL' },
    });
    expect(second?.attributes['outbox.message.attempts']).toBe(1);
  });

  it('leaves a context that the caller gave as it is, and what nobody traced alone', async () => {
    const before = (await observer.received(queue, 1)).length;
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const id = await request('own', () =>
      outbox.enqueueOutsideTransaction(new OrderPlaced('own'), { headers: { traceparent } }),
    );
    const [sent] = await whenNamed('send orders');
    expect(sent).toMatchObject({ parentSpanContext: { spanId: 'b7ad6b7169203331' } });
    expect((await consume(id)).parentSpanContext?.spanId).toBe('b7ad6b7169203331');
    expect(named('create orders')).toEqual([]);
    exporter.reset();
    await dataSource.query(
      "insert into outbox_messages (topic, payload, transport) values ('orders', '{}', 'broker'), ('orders', '[]', 'broker')",
    );
    await observer.received(queue, before + 3);
    await until(async () => (await outbox.stats()).transports['broker']?.ready === 0); // a span would have ended by now
    expect(named('send orders')).toEqual([]);
  });
});
