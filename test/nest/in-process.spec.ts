// @tier fast
import { Controller, Injectable } from '@nestjs/common';
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
import { describeWith, describeOnEach } from '../support/services.js';
import { build, failure, OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

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
  let schema = 0;
  const { applications, database } = useApplications();

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

  it('ends the start where it cannot be called', async () => {
    @Injectable()
    class Lost {
      @OnOutboxEvent({ type: 'plain' })
      handle(): void {}
    }
    const imports = [typeOrm(database), OutboxModule.forRoot(quiet({ database: fresh() as object }))];
    expect(await failure(build(imports, [Lost]))).toMatchObject({ code: 'HANDLER_NOT_ROUTED' });
  });
});

describeOnEach([], 'the progress of handlers', (kind) => {
  const { applications, database } = useApplications(kind);

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
    const first = await applications.start(build([typeOrm(database), OutboxModule.forRoot(options)], [Audit, Mailer]));
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
    const second = await applications.start(build([typeOrm(database), OutboxModule.forRoot(options)], [Audit, Mailer]));
    const before = calls.length;
    await until(async () => (await second.get(OutboxDispatcher).runOnce()).published === 1);
    expect(calls.slice(before)).toEqual(['mail']);
  });
});
