// @tier gate
import { Injectable } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxOptions,
} from 'nestjs-outbox';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { describeOnEach, describeWith } from '../../support/services.js';
import { build, failure, quiet, typeOrm, useApplications } from '../support/app.js';

@OutboxEvent({ type: 'parcel.sent', key: (event) => event.id, validate: z.object({ id: z.string(), kg: z.number() }) })
class ParcelSent {
  constructor(
    readonly id: string,
    readonly kg: unknown,
  ) {}
}

@OutboxEvent({ type: 'order.billed', key: (event) => event.id })
class OrderBilledV1 {
  constructor(
    readonly id: string,
    readonly total: number,
  ) {}
}

@OutboxEvent({
  type: 'order.billed',
  version: 3,
  key: (event) => event.id,
  upcast: {
    1: ({ id, total }: OrderBilledV1) => Promise.resolve({ id, total, currency: 'EUR' }),
    2: ({ id, ...amount }: { id: string; total: number; currency: string }) => ({ id, amount }),
  },
})
class OrderBilled {
  constructor(
    readonly id: string,
    readonly amount: { total: number; currency: string },
  ) {}
}

describeOnEach([], 'an event that its `validate` refuses', (kind) => {
  const { applications, database } = useApplications(kind);

  it('leaves nothing, in a transaction that stays usable: alone, in an array, and by `with`', async () => {
    const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: 'manual' }))]));
    const outbox = app.get(OutboxService);
    const [right, wrong] = [new ParcelSent('p', 1), new ParcelSent('p', 'heavy')];
    const id = await app.get(DataSource).transaction(async (tx) => {
      const attempts = [
        outbox.enqueue(wrong, { tx }),
        outbox.enqueue([right, wrong], { tx }),
        outbox.with(tx).enqueue([right, right, wrong]),
        outbox.with(tx).enqueue(wrong),
      ];
      const texts = (await Promise.allSettled(attempts)).map((one) => one.status === 'rejected' && one.reason.message);
      const refusal = (where: string): unknown =>
        expect.stringMatching(`^${where}Event 'parcel.sent': its .validate. refuses payload.kg. `);
      expect(texts).toEqual(['', 'messages\\[1\\]: ', 'messages\\[2\\]: ', ''].map(refusal));
      return outbox.enqueue(right, { tx });
    });
    const rows = await app.get(DataSource).query('select id from outbox_messages');
    expect(rows).toEqual([{ id }]);
  });
});

describeWith('postgres', 'handlers of a class with `upcast`', () => {
  const { applications, database } = useApplications();
  let schema = 0;
  const local = (): OutboxOptions =>
    quiet({
      relay: 'manual',
      transports: { default: inProcess() },
      database: { setup: 'create', prefix: `u${++schema}_` },
    });
  const start = (providers: any[]) =>
    applications.start(build([typeOrm(database), OutboxModule.forRoot(local())], providers));

  it('get every version from the lowest on as their class, beside handlers of one version or all', async () => {
    const calls: [string, unknown][] = [];
    @Injectable()
    class Bookkeeper {
      @OnOutboxEvent(OrderBilled)
      book(event: OrderBilled): void {
        calls.push(['book', event]);
      }
      @OnOutboxEvent(OrderBilledV1)
      old(event: OrderBilledV1): void {
        calls.push(['old', event]);
      }
      @OnOutboxEvent({ type: 'order.billed' })
      any(event: unknown): void {
        calls.push(['any', event]);
      }
    }
    const app = await start([Bookkeeper]);
    const outbox = app.get(OutboxService);
    const deliver = async (event: object): Promise<unknown> => {
      await outbox.enqueueOutsideTransaction(event);
      expect(await app.get(OutboxDispatcher).drain()).toEqual({ published: 1, retried: 0, dead: 0 });
      return Object.fromEntries(calls.splice(0));
    };
    const current = new OrderBilled('o', { total: 5, currency: 'EUR' });
    const [first, second] = [
      { id: 'o', total: 5 },
      { id: 'o', total: 5, currency: 'EUR' },
    ];
    const plain = { type: 'order.billed', key: 'o' };
    expect(await deliver(new OrderBilledV1('o', 5))).toStrictEqual({
      book: current,
      old: new OrderBilledV1('o', 5),
      any: first,
    });
    expect(await deliver({ ...plain, version: 2, payload: second })).toStrictEqual({ book: current, any: second });
    expect(await deliver(current)).toStrictEqual({ book: current, any: { ...current } });
    expect(await deliver({ ...plain, version: 1, payload: null })).toEqual({ book: null, old: null, any: null });
    expect(await deliver({ ...plain, version: 4, payload: { newer: 1 } })).toEqual({ any: { newer: 1 } });
  });

  it('fail with the step, and succeed when it does', async () => {
    let isRateKnown = false;
    const billed: unknown[] = [];
    @OutboxEvent({
      type: 'rate.asked',
      version: 2,
      upcast: {
        1: (payload: { n: number }) => {
          if (!isRateKnown) throw new Error('no rate of that day');
          return { n: payload.n * 2 };
        },
      },
    })
    class RateAsked {
      constructor(readonly n: number) {}
    }
    @Injectable()
    class Rates {
      @OnOutboxEvent(RateAsked)
      on(event: RateAsked): void {
        billed.push(event);
      }
    }
    const app = await start([Rates]);
    const retried = app.get(OutboxService).events.once('retried');
    await app.get(OutboxService).enqueueOutsideTransaction({ type: 'rate.asked', version: 1, payload: { n: 21 } });
    await app.get(OutboxDispatcher).runOnce();
    expect((await retried).error).toMatch(/Failed: Rates\.on at .*payloads\.spec\.ts:.* ← no rate of that day$/);
    isRateKnown = true;
    expect(await app.get(OutboxDispatcher).drain()).toMatchObject({ published: 1, dead: 0 });
    expect(billed).toEqual([new RateAsked(42)]);
  });

  it('are told apart from those of an old version by ids that stay', async () => {
    @Injectable()
    class Both {
      @OnOutboxEvent(OrderBilledV1)
      @OnOutboxEvent(OrderBilled)
      on(): void {}
    }
    @Injectable()
    class Books {
      @OnOutboxEvent(OrderBilledV1)
      on(): void {}
    }
    @Injectable()
    class Books2 {
      @OnOutboxEvent(OrderBilled)
      on(): void {}
    }
    const refused = (providers: any[]) => failure(build([typeOrm(database), OutboxModule.forRoot(local())], providers));
    expect((await refused([Both])).message).toContain("Two handlers of 'order.billed' have the id 'Both.on'");
    expect((await refused([Books, Books2])).message).toContain("'Books.on'");
  });
});
