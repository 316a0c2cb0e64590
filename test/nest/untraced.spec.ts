import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import * as mysql2 from 'mysql2';
import pg from 'pg';
import { inProcess, OnOutboxEvent, OutboxModule, OutboxService, type OutboxMessage } from '../../lib/index.js';
import { describeOnEach } from '../support/services.js';
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

type Query = (this: unknown, ...args: unknown[]) => unknown;
/** What an instrumentation patches, and how the statements of a relay are told apart in it. */
const OF_MYSQL2 = {
  prototype: (mysql2 as unknown as { Connection: { prototype: { query: Query } } }).Connection.prototype,
  idle: [/^select .*outbox_ready/s, /^select .*outbox_parked/s, /^update .*outbox_leases/s],
  insert: /^insert into .*outbox_ready/s,
};
const DRIVERS = {
  postgres: {
    prototype: pg.Client.prototype as unknown as { query: Query },
    idle: [/^outbox_fetch/, /^outbox_due/, /^update .*outbox_leases/s],
    insert: /^outbox_insert/,
  },
  mariadb: OF_MYSQL2,
  mysql: OF_MYSQL2,
};

describeOnEach([], 'L14: a process with OpenTelemetry', (kind) => {
  const used = useApplications(kind);
  const holder = globalThis as { [API]?: unknown };
  const { prototype, idle, insert } = DRIVERS[kind];
  const { query } = prototype;
  const statements: { readonly name: string; readonly spans: boolean }[] = [];
  beforeAll(() => {
    const active = (): Context => contexts.getStore() ?? new Context();
    holder[API] = { context: { active, with: contexts.run.bind(contexts) } };
    // As an instrumentation does it.
    prototype.query = function (this: unknown, ...args: unknown[]): unknown {
      const [first] = args as [string | { name?: string; text?: string; sql?: string }];
      const name = typeof first === 'string' ? first : (first.name ?? first.text ?? first.sql ?? '');
      statements.push({ name: name.trim(), spans: !isSuppressed() });
      return query.apply(this, args);
    };
  });
  afterAll(() => {
    delete holder[API];
    prototype.query = query;
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
    const counts = (name: RegExp): number => statements.filter((statement) => name.test(statement.name)).length;
    const [reads, looks, renewals] = idle as [RegExp, RegExp, RegExp];
    const isIdle = (): boolean => counts(reads) > 10 && counts(looks) > 5 && counts(renewals) > 0;
    await until(isIdle, 60_000);
    expect(statements.filter((statement) => statement.spans)).toEqual([]);
    const outbox = app.get(OutboxService);
    await outbox.enqueueOutsideTransaction(new OrderPlaced('1'), { transport: ['default', 'other'] });
    await until(() => 'publish' in spans && 'handler' in spans);
    expect(spans).toEqual({ publish: true, handler: true });
    expect(statements.filter((statement) => insert.test(statement.name))).toContainEqual(
      expect.objectContaining({ spans: true }),
    );
  });
});
