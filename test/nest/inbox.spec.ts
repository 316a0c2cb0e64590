// @tier gate
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxMessage,
  OutboxModule,
  OutboxService,
  type OutboxOptions,
} from '../../lib/index.js';
import {
  getInboxToken,
  Idempotent,
  InboxCleaner,
  inboxMigrations,
  InboxModule,
  InboxService,
  inboxSql,
  type InboxOptions,
} from '../../lib/inbox/index.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import { describeOnFewer, describeWith } from '../support/services.js';
import { build, failure, OrderPlaced, quiet, typeOrm, useApplications } from './support/app.js';

const local = (options: Partial<OutboxOptions> = {}): OutboxOptions =>
  quiet({ relay: 'manual', transports: { default: inProcess() }, ...options });

@Injectable()
class Billing {
  fails = 0;
  readonly headers: object[] = [];
  constructor(readonly inbox: InboxService) {}

  @OnOutboxEvent(OrderPlaced)
  @Idempotent()
  async bill({ orderId }: OrderPlaced, _message: OutboxMessage): Promise<void> {
    await (this.inbox.tx as EntityManager).query(`insert into bills values ('${orderId}')`);
    if (this.fails-- > 0) throw new Error('no');
  }

  /** Another effect of the same event. */
  @Idempotent({ consumer: 'statistics' })
  @OnOutboxEvent(OrderPlaced)
  async count(_event: OrderPlaced, { headers }: OutboxMessage): Promise<void> {
    this.headers.push({ ...headers });
    await (this.inbox.tx as EntityManager).query(`insert into bills values ('counted')`);
  }
}

describeOnFewer([], 'the inbox of an application with an outbox', (kind) => {
  const { applications, database } = useApplications(kind, 'test');
  const start = async (options?: InboxOptions) => {
    const modules = [typeOrm(database), OutboxModule.forRoot(local()), InboxModule.forRoot(options)];
    const app = await applications.start(build(modules, [Billing]));
    const dataSource = app.get(DataSource);
    await dataSource.query('create table bills (id varchar(40) not null)');
    return { app, dataSource, inbox: app.get(InboxService), outbox: app.get(OutboxService) };
  };
  const bills = async (dataSource: DataSource): Promise<string[]> =>
    (await dataSource.query<{ id: string }[]>('select id from bills order by id')).map(({ id }) => id);

  it('has the effect of a handler in the database of the outbox exactly once, and each handler its own', async () => {
    const { app, dataSource, outbox, inbox } = await start();
    app.get(Billing).fails = 2;
    const [id] = await dataSource.transaction(async (manager) => [
      await outbox.enqueue(new OrderPlaced('one'), { manager }),
    ]);
    while ((await bills(dataSource)).length < 2) await app.get(OutboxDispatcher).drain();
    expect(await bills(dataSource)).toEqual(['counted', 'one']);
    // As after a crash between the effect and its settlement: the message comes again.
    const message = Object.assign(Object.create(OutboxMessage.prototype) as OutboxMessage, {
      ...{ id, type: 'order.placed', contentType: 'application/json', key: 'one' },
    });
    await app.get(Billing).bill(new OrderPlaced('one'), message);
    await app.get(Billing).count(new OrderPlaced('one'), message);
    expect(await bills(dataSource)).toEqual(['counted', 'one']);
    expect(await inbox.stats()).toEqual([
      { consumer: 'Billing.bill', messages: 1, duplicates: 1 },
      { consumer: 'statistics', messages: 1, duplicates: 1 },
    ]);
  });

  it('keeps what a broker brought in its outbox, once, until its handlers have succeeded', async () => {
    const { app, dataSource, inbox } = await start();
    const content = { contentEncoding: null, payload: { orderId: 'one' }, bytes: Buffer.from('{"orderId":"one"}') };
    const received = (id: string) => ({
      ...{ id, type: 'order.placed', version: 1, key: 'one', time: new Date(), contentType: 'application/json' },
      ...{ headers: { tenant: 'a', id, type: 'order.placed' }, ...content },
    });
    const [own, foreign] = [uuidV7(), 'order-1/placed'];
    expect(await inbox.receive(received(own))).toBe('stored');
    expect(await inbox.receive(received(own))).toBe('duplicate');
    expect(await inbox.receive(received(foreign))).toBe('stored');
    expect(await inbox.receive(received(foreign))).toBe('duplicate');
    await expect(inbox.receive({} as never)).rejects.toThrow('an Object is no message');
    while ((await bills(dataSource)).length < 4) await app.get(OutboxDispatcher).drain();
    expect(await bills(dataSource)).toEqual(['counted', 'counted', 'one', 'one']);
    expect(app.get(Billing).headers).toEqual([{ tenant: 'a' }, { tenant: 'a' }]);
  });

  it('forgets what is older than the retention, and nothing else', async () => {
    const { app, dataSource, inbox } = await start({ retention: '1d' });
    const ids = Array.from({ length: 3 }, () => uuidV7());
    for (const id of ids) await inbox.once(id, () => undefined);
    const keyed = { id: uuidV7(), type: 'order.placed', contentType: 'text/plain', key: 'one' };
    await inbox.once(keyed, { latest: 7 }, () => undefined);
    const old = kind === 'postgres' ? `now() - interval '2 days'` : 'utc_timestamp() - interval 2 day';
    await dataSource.query(`update outbox_inbox set received_at = ${old} where message_id <> '${ids[2]}'`);
    await dataSource.query(`update outbox_inbox_latest set seen_at = ${old}`);
    expect(await app.get(InboxCleaner).runOnce()).toBe(3);
    const statuses = [];
    for (const id of ids) statuses.push((await inbox.once(id, () => undefined)).status);
    expect(statuses).toEqual(['handled', 'handled', 'duplicate']);
    expect((await inbox.once(keyed, { latest: 6 }, () => undefined)).status).toBe('handled');
  });

  it('forgets more than one batch', async () => {
    const { app, dataSource } = await start({ retention: '1d' });
    const [row, generate] =
      kind === 'postgres'
        ? [`'c', n::text, now() - interval '2 days'`, 'from generate_series(1, 2500) n']
        : [`'c', seq, utc_timestamp() - interval 2 day`, 'from seq_1_to_2500'];
    await dataSource.query(`insert into outbox_inbox (consumer, message_id, received_at) select ${row} ${generate}`);
    expect(await app.get(InboxCleaner).runOnce()).toBe(2500);
  });

  it('undoes an effect with a savepoint, and the caller goes on', async () => {
    const { dataSource, inbox, outbox } = await start();
    const id = uuidV7();
    await outbox.transaction(async (tx) => {
      const failing = outbox.transaction(() => inbox.once(id, () => Promise.reject(new Error('no'))), { nested: true });
      await expect(failing).rejects.toThrow('no');
      await (tx as EntityManager).query(`insert into bills values ('written')`);
    });
    expect(await bills(dataSource)).toEqual(['written']);
    expect((await inbox.once(id, () => undefined)).status).toBe('handled');
  });
});

describeWith('postgres', 'the inbox of an application', () => {
  const { applications, database } = useApplications('postgres', 'test');

  class Deliveries {
    readonly handled: unknown[] = [];
    handle(upload: unknown, _message: unknown): void {
      this.handled.push(upload);
    }
  }
  const handles = (parent: typeof Deliveries, name: string): typeof Deliveries => {
    const handler = { [name]: class extends parent {} }[name] as typeof Deliveries;
    Injectable()(handler);
    return handler;
  };
  const markHandle = ({ prototype }: typeof Deliveries): void => {
    const descriptor = { ...Object.getOwnPropertyDescriptor(Deliveries.prototype, 'handle') };
    Idempotent()(prototype, 'handle', descriptor as never);
    Object.defineProperty(prototype, 'handle', descriptor);
  };
  const withInbox = () => [typeOrm(database), InboxModule.forRoot({ database: { setup: 'create' } })];
  const received = (id: string) => ({
    ...{ id, type: 'file.uploaded', version: 1, key: null, time: new Date(), contentType: 'application/json' },
    headers: {},
  });

  it('takes no payload for the message, whatever it looks like', async () => {
    const uploads = handles(Deliveries, 'Uploads');
    markHandle(uploads);
    const app = await applications.start(build(withInbox(), [uploads]));
    const payloads = [1, 2].flatMap((size) => [
      { id: 'file-1', type: 'upload', contentType: 'image/png', size },
      { headers: { id: 'request-1' }, size },
      { message: { headers: { id: 'request-1' }, value: 'text' }, size },
      { properties: { messageId: 'mail-1' }, size },
    ]);
    const { handled, handle } = app.get(uploads);
    for (const payload of payloads) await handle.call(app.get(uploads), payload, received(uuidV7()));
    expect(handled).toEqual(payloads);
  });

  it('has an effect in each subclass that inherits a handler', async () => {
    const parent = handles(Deliveries, 'Notices');
    markHandle(parent);
    const [mail, text] = [handles(parent, 'Mail'), handles(parent, 'Text')];
    const app = await applications.start(build(withInbox(), [mail, text]));
    for (const each of [mail, text, mail]) await app.get(each).handle(each.name, received('notice-1'));
    expect([app.get(mail).handled, app.get(text).handled]).toEqual([['Mail'], ['Text']]);
    expect((await app.get(InboxService).stats()).map(({ consumer }) => consumer)).toEqual([
      'Mail:Notices.handle',
      'Text:Notices.handle',
    ]);
  });

  it('refuses two classes of one name, and tells of an instance that has no inbox', async () => {
    const [one, other] = [handles(Deliveries, 'Twin'), handles(Deliveries, 'Twin')];
    for (const each of [one, other]) markHandle(each);
    expect((await failure(build(withInbox(), [one, other]))).message).toMatch(
      "@Idempotent: two classes are the consumer 'Twin.handle'.",
    );
    await expect((async () => new one().handle({}, received('a')))()).rejects.toThrow(
      '@Idempotent on Twin.handle: Nest did not make it, so it has no inbox.',
    );
  });

  it('works beside another inbox of the same pool, from the first message on, and leaves the outbox its warnings', async () => {
    const modules = [
      typeOrm(database),
      OutboxModule.forRoot(local()),
      InboxModule.forRoot(),
      InboxModule.forRoot({ name: 'reports', database: { setup: 'create', prefix: 'reports_' } }),
    ];
    const app = await applications.start(build(modules, []));
    const inboxes = [app.get(InboxService), app.get<InboxService>(getInboxToken('reports'))];
    for (const inbox of inboxes) {
      const keyed = { id: uuidV7(), type: 'order.placed', contentType: 'text/plain', key: 'one' };
      for (const options of [{}, { latest: 1 }, { latest: 2, onConcurrent: 'refuse' }] as const)
        expect((await inbox.once(keyed, options, () => undefined)).status).toBe('handled');
    }
    const dataSource = app.get(DataSource);
    await dataSource.query('create table beside (id int)');
    const warning = app.get(OutboxService).events.once('warning');
    await inboxes[0]?.once('a', () => dataSource.query('insert into beside values (1)'));
    await warning;
  });

  it('refuses another one of the same name', async () => {
    for (const twin of [{}, { name: 'default', retention: '1d' }] as const)
      expect(await failure(build([...withInbox(), InboxModule.forRoot(twin)]))).toMatchObject({
        code: 'DUPLICATE_INSTANCE',
        message: expect.stringContaining("There are two inboxes named 'default' in this application."),
      });
  });

  it('does not commit a failed effect when its own savepoint is gone back to', async () => {
    const app = await applications.start(build(withInbox(), []));
    const [inbox, dataSource] = [app.get(InboxService), app.get(DataSource)];
    const committed = dataSource.transaction(async (tx) => {
      const failing = inbox.once('a', { tx }, async () => {
        await tx.query('savepoint within');
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      await tx.query('rollback to savepoint within');
    });
    await expect(committed).rejects.toMatchObject({ code: 'ROLLBACK_ONLY' });
    expect((await inbox.once('a', () => undefined)).status).toBe('handled');
  });

  it('needs no outbox', async () => {
    const inboxModule = InboxModule.forRoot({ database: { setup: 'create', prefix: 'billing_', schema: 'billing' } });
    const app = await applications.start(build([typeOrm(database), inboxModule]));
    const inbox = app.get(InboxService);
    expect((await inbox.once('a', (tx) => (tx as EntityManager).query('select 1'))).status).toBe('handled');
    expect((await inbox.once('a', () => undefined)).status).toBe('duplicate');
    await expect(inbox.receive({} as never)).rejects.toThrow('there is no outbox to keep the message in');
  });

  it('has its tables from migrations, or text, and says which are missing', async () => {
    const checked = [typeOrm(database), InboxModule.forRootAsync({ useFactory: () => ({ retention: null }) })];
    expect(await failure(build(checked))).toMatchObject({
      code: 'SCHEMA_MISSING',
      message: expect.stringContaining('"public"."outbox_inbox", "public"."outbox_inbox_latest"'),
      hint: expect.stringContaining('`npx nestjs-outbox migrate upgrade --inbox`'),
    });
    const elsewhere = InboxModule.forRoot({ database: { prefix: 'shop_', schema: 'messaging' } });
    expect((await failure(build([typeOrm(database), elsewhere]))).message).toMatch(
      'upgrade --inbox --prefix shop_ --schema messaging`',
    );
    const migrations = inboxMigrations() as never[];
    const dataSource = await new DataSource({ ...database.options, migrations } as never).initialize();
    await dataSource.runMigrations();
    await (await applications.start(build(checked))).get(InboxService).once('a', () => undefined);
    await applications.close();
    await dataSource.undoLastMigration();
    await dataSource.query(inboxSql('postgres').up);
    await dataSource.query(inboxSql('postgres').up); // may run again
    const again = await applications.start(build(checked));
    expect((await again.get(InboxService).once('a', () => undefined)).status).toBe('handled');
    await dataSource.destroy();
  });

  it('refuses options that it does not know, all at once', async () => {
    const options = { retention: 'soon', consumer: 'a b', onConcurent: 'wait', database: { setup: 'maybe' } };
    const error = await failure(build([typeOrm(database), InboxModule.forRoot(options as never)]));
    expect(error.message).toMatch(
      /InboxModule: .*onConcurrent.*; consumer must be .*; retention must be .*; database\.setup must be/,
    );
  });

  it('refuses a name that the table cannot hold where the handler is declared', () => {
    const declare = () => {
      class Bestätigung {
        @Idempotent()
        handle(): void {}
      }
      return Bestätigung;
    };
    expect(declare).toThrow(/@Idempotent on Bestätigung\.handle: consumer must be 1 to 100 letters/);
  });

  it('is told of a handler that has no message among its arguments', async () => {
    @Injectable()
    class Blind {
      @Idempotent()
      handle(_order: { id: string }): void {}
    }
    const modules = [typeOrm(database), InboxModule.forRoot({ database: { setup: 'create' } })];
    const app = await applications.start(build(modules, [Blind]));
    await expect((async () => app.get(Blind).handle({ id: 'order-1' }))()).rejects.toThrow(
      '@Idempotent on Blind.handle: no argument is a message of an outbox.',
    );
  });
});
