import { context, propagation, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import {
  AlwaysOnSampler,
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node';
import { loadApi } from '../../../lib/otel/api.js';
import { OutboxTracing, type OutboxTracingOptions } from '../../../lib/otel/index.js';
import { saysUnsampled } from '../../../lib/otel/send-spans.js';
import { OutboxTransport, PUBLISHED } from '../../../lib/transports/transport.js';
import type {
  OutboxMessage,
  OutboxService,
  TransportDefinition,
  PublishContext,
  PublishResult,
} from '../../../lib/index.js';
import { followCalls } from '../../../lib/otel/process-spans.js';
import { Spans } from '../../../lib/otel/spans.js';
import { InProcessHandlers } from '../../../lib/transports/in-process/handlers.js';
import { contractMessage } from '../../support/publish.js';

const SUPPRESSED = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING');
const SAMPLED = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
beforeAll(() => provider.register());
beforeEach(() => exporter.reset());
afterAll(async () => {
  await provider.shutdown();
  trace.disable();
  context.disable();
  propagation.disable();
});

const kinds = { rabbit: 'rabbitmq', other: 'own', local: 'in-process' };
const transports = new Map(
  Object.entries(kinds).map(([name, kind]) => [name, { kind, receipt: 'broker' } as TransportDefinition]),
);
const outboxWith = (): OutboxService =>
  ({ runtime: { options: { name: 'default', transports }, wrappers: [] } }) as unknown as OutboxService;
/** @returns what it put into the outbox */
async function start(options?: OutboxTracingOptions): Promise<Required<OutboxService['runtime']>> {
  const outbox = outboxWith();
  await OutboxTracing.start(outbox, options);
  return outbox.runtime as Required<OutboxService['runtime']>;
}

const NEW = { id: 'id', type: 'order.placed', topic: 'orders', transports: ['rabbit'], headers: {} };
const names = (): string[] => exporter.getFinishedSpans().map(({ name }) => name);

describe('OutboxTracing.start', () => {
  it('says in one sentence what is missing', async () => {
    const missing = Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });
    await expect(loadApi(() => Promise.reject(missing))).rejects.toMatchObject({
      code: 'MISSING_PEER',
      message: expect.stringContaining('npm install @opentelemetry/api'),
    });
  });

  it.each([
    [{ tracer: 1 }, 'tracer is no option'],
    [{ tracerProvider: {} }, 'tracerProvider must be a TracerProvider of OpenTelemetry.'],
    [{ createSpans: 'no' }, 'createSpans must be true or false.'],
    [{ template: 'orders' }, 'template must be a function.'],
  ])('refuses %p', async (options, text) => {
    await expect(start(options as never)).rejects.toThrow(`OutboxTracing: ${text}`);
  });

  it('traces an outbox once', async () => {
    const outbox = outboxWith();
    await OutboxTracing.start(outbox);
    await expect(OutboxTracing.start(outbox)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });
});

describe('the spans of an enqueue', () => {
  it('are none with createSpans: false, and the message carries the context of the caller', async () => {
    const tracing = await start({ createSpans: false });
    const parent = propagation.extract(ROOT_CONTEXT, { traceparent: SAMPLED });
    const enqueue = context.with(parent, () => tracing.tracing());
    expect(enqueue.created(NEW)).toEqual({ traceparent: SAMPLED });
    enqueue.end();
    expect(names()).toEqual([]);
  });

  it.each([
    [['rabbit'], 'rabbitmq'],
    [['rabbit', 'other'], 'nestjs_outbox'],
    [['local'], 'nestjs_outbox'],
  ])('name the messaging system of %p', async (to, system) => {
    const enqueue = (await start()).tracing();
    enqueue.created({ ...NEW, transports: to });
    enqueue.end();
    expect(exporter.getFinishedSpans()[0]?.attributes['messaging.system']).toBe(system);
  });

  it('are named after the template where there is one', async () => {
    const template = ({ topic }: { topic: string }) => (topic.startsWith('t.') ? 't.{tenant}' : undefined);
    const enqueue = (await start({ template })).tracing();
    enqueue.created({ ...NEW, topic: 't.4711' });
    enqueue.created(NEW);
    enqueue.end();
    expect(names()).toEqual(['create t.{tenant}', 'create orders']);
    expect(exporter.getFinishedSpans()[0]?.attributes).toMatchObject({
      'messaging.destination.name': 't.4711',
      'messaging.destination.template': 't.{tenant}',
    });
  });

  it('keep no message from being written when they cannot be made', async () => {
    const template = (): never => {
      throw new Error('a mistake');
    };
    const enqueue = (await start({ template })).tracing();
    expect(enqueue.created(NEW)).toBeUndefined();
    enqueue.end();
  });
});

describe('a handler', () => {
  it('makes no span for what nobody sampled, whatever the sampler', async () => {
    const all = new NodeTracerProvider({
      sampler: new AlwaysOnSampler(),
      spanProcessors: [new SimpleSpanProcessor(exporter)],
    });
    const handlers = new InProcessHandlers();
    handlers.add({ id: 'one', type: 'order.placed', call: () => Promise.resolve() } as never);
    const followed = followCalls(handlers, new Spans(await loadApi(), { tracerProvider: all }), 'local');
    const calls = ['00', '01'].map((flags) => {
      const traceparent = SAMPLED.replace(/01$/, flags);
      const message = contractMessage({ topic: 'orders', type: 'order.placed', headers: { traceparent } });
      return followed.of('order.placed', 1)[0]?.call(message, {} as never);
    });
    await Promise.all(calls);
    expect(names()).toEqual(['process orders']);
  });

  it('is called all the same where its span cannot be made', async () => {
    const template = (): never => {
      throw new Error('a mistake');
    };
    const handlers = new InProcessHandlers();
    const call = jest.fn(() => Promise.resolve());
    handlers.add({ id: 'one', type: 'order.placed', call } as never);
    const followed = followCalls(handlers, new Spans(await loadApi(), { template }), 'local');
    const message = contractMessage({ topic: 'orders', type: 'order.placed', headers: { traceparent: SAMPLED } });
    await followed.of('order.placed', 1)[0]?.call(message, {} as never);
    expect(call).toHaveBeenCalledTimes(1);
    expect(names()).toEqual([]);
  });
});

/** Does what the test says. */
class Scripted extends OutboxTransport {
  override readonly receipt = 'broker';
  suppressed: unknown;
  constructor(readonly script: (context: PublishContext) => Promise<readonly PublishResult[] | void>) {
    super();
  }
  override publish(_batch: readonly OutboxMessage[], publishing: PublishContext) {
    this.suppressed = context.active().getValue(SUPPRESSED);
    return this.script(publishing);
  }
}

describe('the spans of a publish', () => {
  const failed: PublishResult = { ok: false, blame: 'message', error: Object.assign(new Error('no'), { code: 'NO' }) };
  const message = (headers: Record<string, string> | null): OutboxMessage =>
    contractMessage({ topic: 'orders', ...(headers !== null && { headers }) });

  let traced: Awaited<ReturnType<typeof start>>;
  beforeEach(async () => void (traced = await start()));
  async function publish(
    transport: Scripted,
    headers: readonly (Record<string, string> | null)[],
    { name = 'rabbit', signal = new AbortController().signal } = {},
  ): Promise<PublishResult[]> {
    const [wrap] = traced.wrappers;
    const definition = { kind: kinds[name as 'rabbit'], receipt: 'broker' as const, create: () => transport };
    const followed = await wrap!(name, definition).create();
    expect(followed).toBe(transport);
    const reported: PublishResult[] = [];
    const report = (index: number, result: PublishResult): void => void (reported[index] = result);
    await followed.publish(headers.map(message), { signal, timeout: 1_000, report });
    return reported;
  }
  const statuses = () =>
    exporter.getFinishedSpans().map(({ status, attributes }) => [status.code, attributes['error.type']]);

  it('end with the result that is told first, and pass it on', async () => {
    const transport = new Scripted(async ({ report }) => {
      report(0, failed);
      return [PUBLISHED, PUBLISHED, failed];
    });
    const reported = await publish(transport, [{ traceparent: SAMPLED }, { traceparent: SAMPLED }, null]);
    expect(reported).toEqual([failed]);
    expect(statuses()).toEqual([
      [SpanStatusCode.ERROR, 'NO'],
      [SpanStatusCode.UNSET, undefined],
    ]);
  });

  it('fail where there is no result, and where the publish rejects', async () => {
    await publish(new Scripted(async () => undefined), [{ traceparent: SAMPLED }]);
    const rejecting = new Scripted(() => Promise.reject(new TypeError('broken')));
    await expect(publish(rejecting, [{ traceparent: SAMPLED }])).rejects.toThrow('broken');
    expect(statuses()).toEqual([
      [SpanStatusCode.ERROR, 'TRANSPORT_UNAVAILABLE'],
      [SpanStatusCode.ERROR, 'TypeError'],
    ]);
  });

  it('end with the deadline of a publish that never does', async () => {
    const deadline = new AbortController();
    const hanging = new Scripted(() => new Promise(() => {}));
    void publish(hanging, [{ traceparent: SAMPLED }], { signal: deadline.signal });
    await new Promise(setImmediate);
    deadline.abort(Object.assign(new Error('late'), { code: 'PUBLISH_TIMEOUT' }));
    expect(statuses()).toEqual([[SpanStatusCode.ERROR, 'PUBLISH_TIMEOUT']]);
  });

  it('are none for what was not sampled, has no context, or cannot be read', async () => {
    const transport = new Scripted(async () => undefined);
    await publish(transport, [
      null,
      { traceparent: SAMPLED.replace(/01$/, '00') },
      { traceparent: 'x' },
      { other: '1' },
    ]);
    expect(names()).toEqual([]);
  });

  it.each([
    ['rabbit', true],
    ['other', undefined],
  ])('stand alone: an instrumented client of %s makes none beside them: %p', async (name, suppressed) => {
    const transport = new Scripted(async () => [PUBLISHED]);
    await publish(transport, [{ traceparent: SAMPLED }], { name });
    expect(transport.suppressed).toBe(suppressed);
    // Made again, as a relay that starts again does.
    await publish(transport, [{ traceparent: SAMPLED }], { name });
    expect([transport.suppressed, names()]).toEqual([suppressed, ['send orders', 'send orders']]);
  });

  it.each([
    [{ traceparent: SAMPLED.replace(/01$/, '00') }, true],
    [{ tenant: 'a', traceparent: SAMPLED.replace(/01$/, '02') }, true],
    [{ traceparent: SAMPLED }, false],
    [{ traceparent: SAMPLED.replace(/01$/, '03') }, false],
    [{ traceparent: 'x' }, false],
    [{ traceparent: '' }, false],
    [{ note: `"traceparent":"${SAMPLED.replace(/01$/, '00')}"` }, false],
    [{ b3: '0' }, false],
  ])('are found in headers without reading them all: %p', (headers, unsampled) => {
    expect(saysUnsampled(JSON.stringify(headers))).toBe(unsampled);
  });
});
