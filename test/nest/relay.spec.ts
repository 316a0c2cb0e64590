// @tier fast
import { Module } from '@nestjs/common';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { OutboxDispatcher, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { describeOnMysqlFamily, describeWith } from '../support/services.js';
import {
  build,
  CollectingTransport,
  countedHealth,
  failure,
  LineLogger,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
  useApplications,
  withoutPolls,
} from './support/app.js';

describeWith('postgres', 'the relay in an application', () => {
  const used = useApplications();
  const { applications } = used;
  const shop = (options: Partial<OutboxOptions>, ...more: any[]) =>
    build([typeOrm(used.database), ...more, OutboxModule.forRoot(quiet(options))]);
  const start = (options: Partial<OutboxOptions>, ...more: any[]) => applications.start(shop(options, ...more));

  describe('relay: false', () => {
    it('creates no transport and starts nothing, and the other process publishes', async () => {
      let created = 0;
      const inert = { kind: 'kafka', receipt: 'broker' as const, create: () => (created++, new CollectingTransport()) };
      const api = await start({ relay: false, transports: { default: inert } });
      const transport = new CollectingTransport();
      await start({ transports: { default: transport } });
      const id = await api.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      await until(() => transport.ids.includes(id));
      expect(created).toBe(0);
      expect(api.get(OutboxDispatcher).status()).toMatchObject({ running: false, transports: [] });
      expect(await countedHealth(api.get(OutboxService))).toMatchObject({
        status: 'up',
        relay: { mode: false, running: false },
        transports: { default: { kind: 'kafka', circuit: 'idle' } },
      });
    });

    it('wakes the relay of the other process', async () => {
      const transport = new CollectingTransport();
      const worker = await applications.start(
        withoutPolls(shop({ transports: { default: transport }, pollInterval: '1m' })),
      );
      const api = await start({ relay: false });
      await until(() =>
        worker
          .get(OutboxDispatcher)
          .status()
          .transports.some((transportRelay) => transportRelay.buckets.length === 32),
      );
      const id = await api.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      await until(() => transport.ids.includes(id));
    });
  });

  it("relay: 'manual' publishes when it is told", async () => {
    const transport = new CollectingTransport();
    const app = await start({ relay: 'manual', transports: { default: transport } });
    const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    expect(app.get(OutboxDispatcher).status().running).toBe(false);
    await app.get(OutboxDispatcher).drain();
    expect(transport.ids).toContain(id);
  });

  it('says in one line what it is, and when it stopped', async () => {
    const logger = new LineLogger();
    await start({
      logger,
      logLevel: 'log',
      transports: { default: new CollectingTransport(), other: new CollectingTransport() },
    });
    await applications.close();
    expect(logger.lines.filter((line) => line.startsWith('log '))).toEqual([
      'log started role=relay transports=default,other buckets=32',
      expect.stringMatching(/^log stopped took=\d+ms released=true runId=[\da-f-]{36}$/),
    ]);
  });

  it('logs nothing per message at the default level, and none of the payload at any', async () => {
    const logger = new LineLogger();
    const transport = new CollectingTransport();
    const app = await start({ logger, logLevel: 'debug', transports: { default: transport } });
    const id = await app.get(OutboxService).enqueueOutsideTransaction({
      type: 'secret',
      topic: 't',
      key: null,
      headers: { h: 'header-secret' },
      payload: { card: 'payload-secret' },
    });
    await until(() => transport.ids.includes(id));
    await applications.close();
    expect(logger.lines.some((line) => line.startsWith('debug published'))).toBe(true);
    expect(JSON.stringify(logger.entries)).not.toMatch(/payload-secret|header-secret/);
  });

  it('G8: tells listeners, and outlives those that throw or hang', async () => {
    const transport = new CollectingTransport();
    const app = await start({ transports: { default: transport } });
    const outbox = app.get(OutboxService);
    outbox.events.on('published', () => {
      throw new Error('listener');
    });
    outbox.events.on('published', () => new Promise(() => {}));
    outbox.events.on('enqueued', () => Promise.reject(new Error('listener')));
    const enqueued = outbox.events.once('enqueued');
    const published = outbox.events.once('published');
    const id = await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    expect(await enqueued).toEqual({ ids: [id] });
    expect(await published).toEqual({ transport: 'default', ids: [id], batches: [1], runId: expect.any(String) });
    const second = await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(() => transport.ids.includes(second));
  });

  describe('transports', () => {
    class Injected extends CollectingTransport {}
    const CLIENT = Symbol('client');
    @Module({ providers: [Injected, { provide: CLIENT, useValue: 'client' }], exports: [Injected, CLIENT] })
    class Clients {}

    it('are taken as class, token, factory and object; a class nobody provides is made', async () => {
      class Made extends CollectingTransport {}
      const given: unknown[] = [];
      const app = await start(
        {
          relay: 'manual',
          transports: {
            default: Injected,
            made: Made,
            factory: {
              inject: [CLIENT],
              useFactory: (client: string) => (given.push(client), new CollectingTransport()),
            },
          },
        },
        Clients,
      );
      await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      await app.get(OutboxDispatcher).drain();
      expect(app.get(Injected, { strict: false }).ids.length).toBeGreaterThan(0);
      expect(given).toEqual(['client']);
    });

    it('that cannot be had are an error at start, and those that were made are closed', async () => {
      const first = new CollectingTransport();
      const wrong = (other: OutboxOptions['transports'][string]) =>
        failure(
          build([typeOrm(used.database), OutboxModule.forRoot(quiet({ transports: { default: first, other } }))]),
        );
      expect((await wrong('NOBODY')).message).toContain("transports.other: this application has no provider 'NOBODY'");
      expect((await wrong({ useFactory: () => ({}) as never })).message).toContain('which has no publish()');
      class Unconfirmed extends CollectingTransport {
        override readonly receipt = 'none';
      }
      expect(await wrong(Unconfirmed)).toMatchObject({ code: 'UNCONFIRMED_TRANSPORT' });
      expect(first.closed).toBe(3);
    });
  });

  describe('ScheduleModule', () => {
    it('shows the loops while the application runs', async () => {
      const app = await start({}, ScheduleModule.forRoot());
      const registry = app.get(SchedulerRegistry);
      expect(registry.getIntervals()).toEqual([
        'outbox:default:dispatch',
        'outbox:default:unlock',
        'outbox:default:clean',
      ]);
      expect(registry.getInterval('outbox:default:dispatch')).toBe(app.get(OutboxDispatcher));
      await applications.close();
      expect(registry.getIntervals()).toEqual([]);
    });

    it('is not needed, neither for cron', async () => {
      await start({ retention: { every: { cron: '0 3 * * *' } } });
      await applications.close();
      const error = await failure(
        build([typeOrm(used.database), OutboxModule.forRoot(quiet({ retention: { every: { cron: 'a b c d e' } } }))]),
      );
      expect(error.message).toContain("'a b c d e' is no cron expression");
    });
  });

  it('closes when nothing was started', async () => {
    const compiled = await build([typeOrm(used.database), OutboxModule.forRoot(quiet())]).compile();
    await compiled.close();
  });
});

describeOnMysqlFamily('the relay in an application', (kind) => {
  const used = useApplications(kind);

  it('cannot notify', async () => {
    const error = await failure(build([typeOrm(used.database), OutboxModule.forRoot(quiet({ wakeUp: 'notify' }))]));
    expect(error.message).toContain("wakeUp: 'notify' needs PostgreSQL");
  });

  it('has nothing to listen at', async () => {
    const database = { pooler: 'postgres://app:secret@host/shop' };
    const error = await failure(build([typeOrm(used.database), OutboxModule.forRoot(quiet({ database }))]));
    expect(error.message).toMatch(/^database\.pooler with an address needs PostgreSQL\. Leave it out/);
  });
});
