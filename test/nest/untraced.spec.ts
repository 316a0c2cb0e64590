import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import pg from 'pg';
import { inProcess, OnOutboxEvent, OutboxModule, OutboxService, type OutboxMessage } from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { build, CollectingTransport, OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

/** As `@opentelemetry/api` keeps it, and its SDK looks it up before it makes a span. */
const API = Symbol.for('opentelemetry.js.api.1');
const SUPPRESSED = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING');
class Context {
  constructor(readonly values = new Map<symbol, unknown>()) {}
  setValue(key: symbol, value: unknown): Context {
    return new Context(new Map(this.values).set(key, value));
  }
}
const contexts = new AsyncLocalStorage<Context>();
const isSuppressed = (): boolean => contexts.getStore()?.values.get(SUPPRESSED) === true;

describeWith('postgres', 'L14: a process with OpenTelemetry', () => {
  const used = useApplications();
  const holder = globalThis as { [API]?: unknown };
  const { query } = pg.Client.prototype;
  const statements: { readonly name: string; readonly spans: boolean }[] = [];
  beforeAll(() => {
    const active = (): Context => contexts.getStore() ?? new Context();
    holder[API] = { context: { active, with: contexts.run.bind(contexts) } };
    // As an instrumentation does it.
    const original = query as (this: unknown, ...args: unknown[]) => unknown;
    const patched = function (this: unknown, ...args: unknown[]): unknown {
      const [first] = args as [string | { name?: string; text: string }];
      const name = typeof first === 'string' ? first : (first.name ?? first.text);
      statements.push({ name, spans: !isSuppressed() });
      return original.apply(this, args);
    };
    pg.Client.prototype.query = patched as typeof query;
  });
  afterAll(() => {
    delete holder[API];
    pg.Client.prototype.query = query;
  });

  it('gets no spans of a relay that looks for work; those of enqueue, publish and handlers are there', async () => {
    const spans: Record<string, boolean> = {};
    class Traced extends CollectingTransport {
      override async publish(batch: readonly OutboxMessage[]) {
        spans['publish'] = !isSuppressed();
        return super.publish(batch);
      }
    }
    @Injectable()
    class Mailer {
      @OnOutboxEvent(OrderPlaced)
      on(): void {
        spans['handler'] = !isSuppressed();
      }
    }
    const options = quiet({ transports: { default: inProcess(), other: new Traced() } });
    const app = await used.applications.start(build([typeOrm(used.database), OutboxModule.forRoot(options)], [Mailer]));
    statements.length = 0;
    const counts = (name: string): number => statements.filter((statement) => statement.name.startsWith(name)).length;
    const isIdle = (): boolean => counts('outbox_fetch') > 10 && counts('outbox_due') > 5 && counts('outbox_renew') > 0;
    await until(isIdle, 60_000);
    expect(statements.filter((statement) => statement.spans)).toEqual([]);
    const outbox = app.get(OutboxService);
    await outbox.enqueueOutsideTransaction(new OrderPlaced('1'), { transport: ['default', 'other'] });
    await until(() => 'publish' in spans && 'handler' in spans);
    expect(spans).toEqual({ publish: true, handler: true });
    expect(statements.filter((statement) => statement.name.startsWith('outbox_insert'))).toContainEqual(
      expect.objectContaining({ spans: true }),
    );
  });
});
