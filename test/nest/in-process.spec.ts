// @tier fast
import { Controller, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type OutboxOptions,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DATABASES, describeWith } from '../support/services.js';
import { Applications, build, OrderPlaced, quiet, typeOrm, until } from './support/app.js';

@OutboxEvent({
  type: 'parcel.sent',
  key: (e) => e.id,
  version: 2,
  revive: (payload) => new ParcelSent(`revived ${(payload as ParcelSent).id}`),
})
class ParcelSent {
  constructor(readonly id: string) {}
}

describeWith('postgres', '@OnOutboxEvent', () => {
  let database: TestDatabase;
  let schema = 0;
  const applications = new Applications();

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  afterEach(() => applications.close());
  afterAll(() => database.drop());

  /** Tables of its own for each test. */
  const fresh = (): OutboxOptions['database'] => ({ setup: 'create', prefix: `h${++schema}_` });
  const local = (options: Partial<OutboxOptions> = {}): OutboxOptions =>
    quiet({ relay: 'manual', transports: { default: inProcess() }, database: fresh() as object, ...options });
  const start = (providers: any[], options: OutboxOptions = local()) =>
    applications.start(build([typeOrm(database), OutboxModule.forRoot(options)], providers));

  it('is called with the event, of its class, and the message', async () => {
    const calls: { event: unknown; message: OutboxMessage }[] = [];
    @Injectable()
    class Mailer {
      readonly prefix = 'mailed';
      @OnOutboxEvent(OrderPlaced)
      async send(event: OrderPlaced, message: OutboxMessage): Promise<void> {
        calls.push({ event, message });
        expect(this.prefix).toBe('mailed');
      }
      @OnOutboxEvent(ParcelSent)
      parcel(event: ParcelSent, message: OutboxMessage): void {
        calls.push({ event, message });
      }
    }
    const app = await start([Mailer]);
    const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1', 42));
    await app.get(OutboxService).enqueueOutsideTransaction(new ParcelSent('p'));
    expect(await app.get(OutboxDispatcher).drain()).toEqual({ published: 2, retried: 0, dead: 0 });
    const order = calls.find(({ message }) => message.id === id);
    expect(order?.event).toBeInstanceOf(OrderPlaced);
    expect(order?.event).toEqual(new OrderPlaced('1', 42));
    expect(order?.message).toMatchObject({ type: 'order.placed', topic: 'orders', key: '1', attempts: 0 });
    expect(calls.find(({ message }) => message.id !== id)?.event).toEqual(new ParcelSent('revived p'));
  });

  it('handles plain messages by type and version, tombstones, bytes and hostile keys; in controllers too', async () => {
    const seen: unknown[] = [];
    @Controller()
    class Plain {
      @OnOutboxEvent({ type: 'plain' })
      every(event: unknown): void {
        seen.push(['every', event]);
      }
      @OnOutboxEvent({ type: 'plain', version: 2 })
      second(event: unknown): void {
        seen.push(['second', event]);
      }
    }
    const builder = build([
      typeOrm(database),
      OutboxModule.forRoot(local()),
      { module: class Controllers {}, controllers: [Plain] },
    ]);
    const app = await applications.start(builder);
    const outbox = app.get(OutboxService);
    const plain = { type: 'plain', topic: 't', key: null };
    for (const [version, payload] of [
      [1, null],
      [2, JSON.parse('{"__proto__": {"admin": true}}')],
      [3, Buffer.from([0, 255])],
    ] as const) {
      await outbox.enqueueOutsideTransaction({ ...plain, version, payload });
      await app.get(OutboxDispatcher).drain();
    }
    expect(seen.map(([name]: any) => name)).toEqual(['every', 'every', 'second', 'every']);
    expect((seen[0] as unknown[])[1]).toBeNull();
    const hostile = (seen[1] as [string, object])[1];
    expect(Object.getPrototypeOf(hostile)).toBe(Object.prototype);
    expect(Object.hasOwn(hostile, '__proto__')).toBe(true);
    expect((seen[3] as unknown[])[1]).toEqual(Buffer.from([0, 255]));
  });

  it('is missed: a retry, never a success', async () => {
    const options = local({ retry: { initial: '1s', max: '1s', maxAttempts: null } });
    const app = await start([], options);
    const retried = app.get(OutboxService).events.once('retried');
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await app.get(OutboxDispatcher).runOnce();
    expect((await retried).error).toContain("No @OnOutboxEvent of this process handles 'order.placed' version 1");
    await applications.close();
    const calls: string[] = [];
    @Injectable()
    class Late {
      @OnOutboxEvent(OrderPlaced)
      send(event: OrderPlaced): void {
        calls.push(event.orderId);
      }
    }
    const later = await start([Late], options);
    await until(async () => (await later.get(OutboxDispatcher).runOnce()).published === 1);
    expect(calls).toEqual(['1']);
  });

  it('that hangs holds up nobody else for longer than the publish timeout, and is not called twice at once', async () => {
    let release = (): void => {};
    const running: string[] = [];
    @Injectable()
    class Slow {
      @OnOutboxEvent(OrderPlaced)
      async send(event: OrderPlaced): Promise<void> {
        running.push(event.orderId);
        if (event.orderId === 'hangs') await new Promise<void>((resolve) => (release = resolve));
      }
    }
    const app = await start(
      [Slow],
      local({ relay: true, publishTimeout: 2_000, retry: { initial: 1, max: 1, maxAttempts: null } }),
    );
    const outbox = app.get(OutboxService);
    const retried = outbox.events.once('retried');
    await outbox.enqueueOutsideTransaction(new OrderPlaced('hangs'));
    await until(() => running.includes('hangs'));
    await outbox.enqueueOutsideTransaction(new OrderPlaced('other'));
    await until(() => running.includes('other'));
    expect((await retried).error).toContain('did not finish within');
    expect((await outbox.health()).transports['default']).toMatchObject({ receipt: 'handler', circuit: 'closed' });
    release();
    await until(async () => (await outbox.stats()).total.waiting === 0 && (await outbox.stats()).total.ready === 0);
    expect(running.filter((id) => id === 'hangs')).toHaveLength(1);
  });

  it.each(['buckets', 'rowLock'] as const)(
    'costs no attempt when a stop does not wait for it: %s',
    async (coordination) => {
      const running: string[] = [];
      const handled: OutboxMessage[] = [];
      @Injectable()
      class Slow {
        @OnOutboxEvent(OrderPlaced)
        async send(event: OrderPlaced, message: OutboxMessage): Promise<void> {
          running.push(event.orderId);
          if (running.length === 1) await new Promise<void>(() => {});
          handled.push(message);
        }
      }
      const retry = { maxAttempts: 1 };
      const late = { shutdownTimeout: 100, lease: '10m', publishTimeout: '5m' } as const; // nothing but the stop ends it
      const options = local({ relay: true, coordination, ordering: 'none', ...late, retry });
      const app = await start([Slow], options);
      const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('hangs'));
      await until(() => running.length === 1);
      await applications.close();
      const later = await start([Slow], { ...options, relay: 'manual' });
      expect((await later.get(OutboxService).stats()).total.dead).toBe(0);
      await until(async () => (await later.get(OutboxDispatcher).runOnce()).published === 1);
      expect(handled.map((message) => [message.id, message.attempts])).toEqual([[id, 0]]);
    },
  );

  it('serves several outboxes of one application, each with its own routing', async () => {
    const calls: string[] = [];
    @Injectable()
    class Handler {
      @OnOutboxEvent(OrderPlaced)
      handle(event: OrderPlaced): void {
        calls.push(event.orderId);
      }
    }
    const dataSource = await new DataSource(database.options).initialize();
    const main = OutboxModule.forRoot(quiet({ relay: 'manual', database: fresh() as object }));
    const named = OutboxModule.forRoot({ ...local(), name: 'local', dataSource });
    try {
      const app = await applications.start(build([typeOrm(database), main, named], [Handler]));
      const outbox = app.get<OutboxService>('Outbox(local).service');
      await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
      await app.get<OutboxDispatcher>('Outbox(local).dispatcher').drain();
      expect(calls).toEqual(['1']);
      await applications.close();
    } finally {
      await dataSource.destroy();
    }
  });
});

describeWith(DATABASES, 'the progress of handlers', () => {
  describe.each(DATABASES)('on %s', (kind) => {
    let database: TestDatabase;
    const applications = new Applications();
    beforeAll(async () => {
      database = await createTestDatabase(kind);
    });
    afterEach(() => applications.close());
    afterAll(() => database.drop());

    it('calls on a retry only the handlers that have not succeeded, also after a restart', async () => {
      const calls: string[] = [];
      let broken = true;
      @Injectable()
      class Audit {
        @OnOutboxEvent(OrderPlaced, { id: 'audit' })
        keep(): void {
          calls.push('audit');
        }
      }
      @Injectable()
      class Mailer {
        @OnOutboxEvent(OrderPlaced)
        async send(): Promise<void> {
          calls.push('mail');
          if (broken) throw new Error('smtp down');
        }
      }
      const options = quiet({
        relay: 'manual',
        transports: { default: inProcess() },
        retry: { initial: '1s', max: '1s' },
      });
      const first = await applications.start(
        build([typeOrm(database), OutboxModule.forRoot(options)], [Audit, Mailer]),
      );
      const failed = first.get(OutboxService).events.once('retried');
      await first.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      await first.get(OutboxDispatcher).runOnce();
      const { error } = await failed;
      expect(error).toMatch(
        /Failed: Mailer\.send at test\S+in-process\.spec\.ts:\d+:\d+\. \(HANDLER_FAILED\) ← smtp down$/,
      );
      expect(calls.filter((call) => call === 'audit')).toHaveLength(1);
      await applications.close();
      broken = false;
      const second = await applications.start(
        build([typeOrm(database), OutboxModule.forRoot(options)], [Audit, Mailer]),
      );
      const before = calls.length;
      await until(async () => (await second.get(OutboxDispatcher).runOnce()).published === 1);
      expect(calls.slice(before)).toEqual(['mail']);
    });
  });
});
