// @tier gate
import { Injectable, Scope } from '@nestjs/common';
import {
  AggregateRoot,
  CqrsModule,
  EventBus,
  EventPublisher,
  EventsHandler,
  Saga,
  type IEventPublisher,
} from '@nestjs/cqrs';
import { map, type Observable } from 'rxjs';
import { DataSource } from 'typeorm';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxEvent,
  OutboxMessage,
  OutboxModule,
  OutboxService,
  type OutboxOptions,
} from 'nestjs-outbox';
import { commitTo, OutboxCqrsModule, OutboxEventPublisher } from 'nestjs-outbox/cqrs';
import { describeOnFewer, describeWith } from '../../support/services.js';
import { gate } from '../../support/transport-relay.js';
import { build, failure, OrderPlaced, quiet, typeOrm, until, useApplications } from '../support/app.js';

@OutboxEvent({ type: 'order.paid', key: (event) => event.orderId })
class OrderPaid {
  constructor(readonly orderId: string) {}
}
/** Of the bus alone. */
class OrderSeen {}

class Order extends AggregateRoot {
  readonly handled: string[] = [];
  constructor(readonly id: string) {
    super();
  }
  place(): this {
    this.apply(new OrderPlaced(this.id));
    return this.pay();
  }
  pay(): this {
    this.apply(new OrderPaid(this.id));
    return this;
  }
  onOrderPaid(): void {
    this.handled.push('paid');
  }
}

const local = (options: Partial<OutboxOptions> = {}): OutboxOptions =>
  quiet({ relay: 'manual', transports: { default: inProcess() }, retry: { initial: 1, max: 1 }, ...options });
/** A bus that publishes into the outbox. */
const bus = () =>
  CqrsModule.forRootAsync({
    inject: [OutboxService],
    useFactory: (outbox: OutboxService) => ({
      eventPublisher: new OutboxEventPublisher(outbox) satisfies IEventPublisher,
    }),
  });

describeOnFewer([], 'events of an aggregate', (kind) => {
  const { applications, database } = useApplications(kind, 'test');
  const rejections: unknown[] = [];
  const hear = (reason: unknown): void => void rejections.push(reason);
  beforeEach(() => void process.on('unhandledRejection', hear));
  afterEach(() => {
    process.off('unhandledRejection', hear);
    expect(rejections.splice(0)).toEqual([]);
  });
  const start = async (cqrs = bus(), options: Partial<OutboxOptions> = {}) => {
    const modules = [typeOrm(database), OutboxModule.forRoot(quiet({ relay: 'manual', ...options })), cqrs];
    const app = await applications.start(build(modules));
    const dataSource = app.get(DataSource);
    await dataSource.query('create table orders (id varchar(40) not null)');
    const stored = async () => {
      const count = async (table: string) =>
        Number((await dataSource.query(`select count(*) as n from ${table}`))[0].n);
      return { orders: await count('orders'), messages: await count('outbox_ready') };
    };
    return { app, dataSource, outbox: app.get(OutboxService), stored };
  };
  const INSERT = `insert into orders values ('one')`;

  it('are committed with it by commitTo, and stay with it when they are not', async () => {
    const { dataSource, outbox, stored } = await start(CqrsModule.forRoot());
    const order = new Order('one').place();
    await expect(commitTo(outbox, order)).rejects.toMatchObject({ code: 'TRANSACTION_REQUIRED' });
    order.apply(new OrderSeen());
    const unknown = dataSource.transaction((tx) => commitTo(outbox, order, { tx }));
    await expect(unknown).rejects.toMatchObject({ code: 'UNKNOWN_EVENT' });
    expect(order.getUncommittedEvents()).toHaveLength(3);
    order.uncommit();
    order.place();
    const ids = await dataSource.transaction(async (tx) => {
      await tx.query(INSERT);
      const committed = commitTo(outbox, order, { tx });
      await expect(commitTo(outbox, order, { tx })).rejects.toThrow('is being committed already');
      order.pay(); // while they are written
      return committed;
    });
    expect(ids).toHaveLength(2);
    expect(order.getUncommittedEvents()).toEqual([new OrderPaid('one')]);
    expect(order.handled).toEqual(['paid', 'paid', 'paid']); // once for each
    expect(await stored()).toEqual({ orders: 1, messages: 2 });
    order.autoCommit = true;
    await expect(dataSource.transaction((tx) => commitTo(outbox, order, { tx }))).rejects.toThrow('autoCommit');
  });

  it('are enqueued by its own commit(), for which the COMMIT waits', async () => {
    const encrypting = gate();
    const encrypted = gate();
    const encryption: NonNullable<OutboxOptions['encryption']> = {
      encrypt: async (ciphertext) => {
        encrypting.open();
        await encrypted.opened;
        return { ciphertext, keyId: 'key' };
      },
      decrypt: ({ ciphertext }) => ciphertext,
    };
    const { app, outbox, stored } = await start(bus(), { encryption });
    const order = app.get(EventPublisher).mergeObjectContext(new Order('one').place());
    let isCommitted = false;
    const done = outbox.transaction(async (tx) => {
      await tx.query(INSERT);
      order.commit();
    });
    void done.then(() => (isCommitted = true));
    await encrypting.opened;
    expect(await stored()).toEqual({ orders: 0, messages: 0 });
    expect(isCommitted).toBe(false);
    encrypted.open();
    await done;
    expect(await stored()).toEqual({ orders: 1, messages: 2 });
    expect(order.getUncommittedEvents()).toEqual([]);
  });

  it('undo the transaction when one of them cannot be enqueued, though nobody awaits it', async () => {
    const { app, outbox, stored } = await start();
    const publisher = app.get(EventPublisher);
    const refused = outbox.transaction(async (tx) => {
      await tx.query(INSERT);
      const order = publisher.mergeObjectContext(new Order('one'));
      order.apply(new OrderSeen());
      order.commit();
    });
    await expect(refused).rejects.toMatchObject({ code: 'ROLLBACK_ONLY', cause: { code: 'UNKNOWN_EVENT' } });
    expect(await stored()).toEqual({ orders: 0, messages: 0 });
    // A savepoint takes it back, and what comes after it is kept.
    await outbox.transaction(async (tx) => {
      await tx.query(INSERT);
      const inner = outbox.transaction(async () => app.get(EventBus).publish(new OrderSeen()), { nested: true });
      await expect(inner).rejects.toMatchObject({ code: 'UNKNOWN_EVENT' });
      publisher.mergeObjectContext(new Order('one').place()).commit();
    });
    expect(await stored()).toEqual({ orders: 1, messages: 2 });
  });

  it('are refused at once where no COMMIT would wait for them', async () => {
    const { app, dataSource, outbox, stored } = await start();
    const order = app.get(EventPublisher).mergeObjectContext(new Order('one'));
    order.commit(); // nothing to enqueue
    order.place();
    expect(() => order.commit()).toThrow('There is no active transaction.');
    expect(order.getUncommittedEvents()).toHaveLength(2);
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await outbox.bind(runner, async () => {
      const written = [outbox.enqueue(new OrderPaid('first')), runner.query('savepoint here')];
      expect(() => order.commit()).toThrow('is on its way');
      await Promise.all(written);
      const committed = runner.query('commit');
      expect(() => order.commit()).toThrow('is being ended');
      await committed;
    });
    await runner.commitTransaction();
    await runner.release();
    expect(await stored()).toEqual({ orders: 0, messages: 1 });
  });
});

describeWith('postgres', '@EventsHandler classes', () => {
  const { applications, database } = useApplications('postgres', 'test');
  const modules = (options: Partial<OutboxOptions> = {}) => [
    typeOrm(database),
    OutboxModule.forRoot(local(options)),
    CqrsModule.forRoot(),
    OutboxCqrsModule,
  ];

  it('get messages, each until it returns; what is no event of the outbox stays with the bus', async () => {
    const calls: unknown[] = [];
    @EventsHandler(OrderPlaced, OrderSeen)
    class Mail {
      fails = 1;
      async handle(event: OrderPlaced | OrderSeen, message?: OutboxMessage): Promise<void> {
        calls.push(['mail', event.constructor.name, message instanceof OutboxMessage]);
        if (event instanceof OrderPlaced && this.fails-- > 0) throw new Error('not yet');
      }
    }
    @EventsHandler(OrderPlaced)
    class Bill {
      @OnOutboxEvent(OrderPlaced, { id: 'bill' })
      handle(event: OrderPlaced): void {
        calls.push(['bill', event]);
      }
    }
    const app = await applications.start(build(modules(), [Mail, Bill]));
    app.get(EventBus).publish(new OrderSeen());
    await until(() => calls.length === 1);
    const retried = app.get(OutboxService).events.once('retried');
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(async () => (await app.get(OutboxDispatcher).runOnce()).published === 1);
    expect((await retried).error).toMatch(/Failed: Mail\.handle at/);
    expect(calls).toHaveLength(4);
    expect(calls).toContainEqual(['bill', new OrderPlaced('1')]);
    expect(calls.filter((call) => (call as string[])[0] === 'mail')).toEqual([
      ['mail', 'OrderSeen', false],
      ['mail', 'OrderPlaced', true],
      ['mail', 'OrderPlaced', true],
    ]);
  });

  it('end the start where they would not be called, and a saga is warned of', async () => {
    @EventsHandler(OrderPlaced)
    class Elsewhere {
      handle(): void {}
    }
    const broker = quiet({ relay: 'manual' });
    expect(await failure(build(modules(broker), [Elsewhere]))).toMatchObject({ code: 'HANDLER_NOT_ROUTED' });
    @EventsHandler(OrderPlaced, { scope: Scope.REQUEST } as never)
    class Scoped {
      handle(): void {}
    }
    expect(await failure(build(modules(), [Scoped]))).toMatchObject({
      message: expect.stringContaining('Scoped.handle handles outbox events, but its provider is not a singleton'),
    });
    @Injectable()
    class Sagas {
      @Saga()
      paid = (events: Observable<unknown>) => events.pipe(map(() => undefined as never));
    }
    const warned: unknown[] = [];
    const nothing = (): void => {};
    const logger = { log: nothing, error: nothing, warn: (text: unknown) => void warned.push(text) };
    await applications.start(build(modules(), [Sagas]).setLogger(logger));
    expect(warned).toEqual([expect.stringContaining('the saga Sagas.paid hears no event of the outbox')]);
  });
});
