import { Injectable } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxOptions,
} from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { build, failure, OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

@OutboxEvent({
  type: 'parcel.sent',
  payload: async ({ id }) => ({ id }), // its type says unknown
})
class ParcelSent {
  constructor(readonly id: string) {}
}

@OutboxEvent<OrderMoved>({
  type: 'order.moved',
  revive: async (payload) => new OrderMoved(`revived ${(payload as OrderMoved).id}`),
})
class OrderMoved {
  constructor(readonly id: string) {}
}

/** Loses in silence what JSON cannot hold. */
const lax = {
  contentType: 'application/json',
  serialize: (payload: unknown) => Buffer.from(JSON.stringify(payload)),
  deserialize: async (bytes: Uint8Array): Promise<unknown> => JSON.parse(Buffer.from(bytes).toString()),
};

describeWith('postgres', 'functions of the application that are async', () => {
  const used = useApplications();
  let prefix = 0;
  const options = (more: Partial<OutboxOptions> = {}): OutboxOptions =>
    quiet({
      transports: { default: inProcess() },
      database: { prefix: `async${++prefix}_` },
      relay: 'manual',
      ...more,
    });
  const module = (more?: Partial<OutboxOptions>) => [typeOrm(used.database), OutboxModule.forRoot(options(more))];

  it('K4: deserialize and revive are waited for before a handler is called', async () => {
    const events: unknown[] = [];
    @Injectable()
    class Handler {
      @OnOutboxEvent(OrderMoved)
      moved(event: OrderMoved): void {
        events.push(event);
      }
      @OnOutboxEvent(OrderPlaced)
      placed(event: OrderPlaced): void {
        events.push(event);
      }
    }
    const app = await used.applications.start(build(module({ serializer: lax }), [Handler]));
    for (const event of [new OrderMoved('1'), new OrderPlaced('2')]) {
      await app.get(OutboxService).enqueueOutsideTransaction(event);
      await app.get(OutboxDispatcher).drain();
    }
    expect(events).toEqual([new OrderMoved('revived 1'), new OrderPlaced('2')]);
    expect(events[1]).toBeInstanceOf(OrderPlaced);
  });

  it('K4: a payload that is a promise is refused, whatever the serializer', async () => {
    const app = await used.applications.start(build(module({ serializer: lax })));
    await expect(app.get(OutboxService).enqueueOutsideTransaction(new ParcelSent('1'))).rejects.toMatchObject({
      code: 'PAYLOAD_NOT_SERIALIZABLE',
      message: expect.stringContaining('is a Promise'),
    });
  });

  it('K4: a classifier that promises has no say, and is told as an error', async () => {
    @Injectable()
    class Handler {
      @OnOutboxEvent({ type: 'bad' })
      bad(): void {
        throw new Error('no');
      }
    }
    const classify = (async () => 'transport') as never;
    const more = { retry: { classify, maxAttempts: 1 } };
    const app = await used.applications.start(build(module(more), [Handler]));
    const outbox = app.get(OutboxService);
    const errors: unknown[] = [];
    outbox.events.on('error', ({ error }) => errors.push(error));
    await outbox.enqueueOutsideTransaction({ type: 'bad', payload: {} });
    expect(await app.get(OutboxDispatcher).drain()).toMatchObject({ dead: 1 });
    await until(() => errors.length === 1);
    expect(errors[0]).toMatchObject({ message: expect.stringContaining('retry.classify returned a Promise') });
  });

  it('K4: a store that is promised is refused at start', async () => {
    const store = (async () => ({})) as never;
    expect(await failure(build(module({ store })))).toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringContaining('store: it returned a Promise'),
    });
  });
});
