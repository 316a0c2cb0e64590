import { Injectable, Module, type OnModuleDestroy } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Transport } from '@nestjs/microservices';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService } from '../../lib/index.js';
import { httpAdapter, type HttpServer } from '../support/http.js';
import { describeOnFewer, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import {
  useApplications,
  build,
  GatedTransport,
  MoodyTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';

describeOnFewer([], 'an application that ends', (kind) => {
  const { applications, database } = useApplications(kind);
  const left = async (): Promise<number> => {
    const dataSource = await new DataSource(database.options).initialize();
    const [{ n }] = await dataSource.query(`select count(*) as n from outbox_ready`);
    await dataSource.destroy();
    return Number(n);
  };

  /** As some applications have it: Nest calls this before, after or while the relay stops. */
  @Injectable()
  class Impatient implements OnModuleDestroy {
    constructor(readonly dataSource: DataSource) {}
    async onModuleDestroy(): Promise<void> {
      if (this.dataSource.isInitialized) await this.dataSource.destroy();
    }
  }
  const serving = async (shop: new () => object, server: HttpServer) => {
    const app = await NestFactory.create(shop, httpAdapter(server), { logger: false });
    await app.listen(0, '127.0.0.1');
    return app;
  };
  const applicationOf = {
    standalone: (shop: new () => object) => NestFactory.createApplicationContext(shop, { logger: false }),
    express: (shop: new () => object) => serving(shop, 'express'),
    fastify: (shop: new () => object) => serving(shop, 'fastify'),
    microservice: async (shop: new () => object) => {
      const app = await NestFactory.createMicroservice(shop, {
        transport: Transport.TCP,
        options: { host: '127.0.0.1', port: 0 },
        logger: false,
      });
      await app.listen();
      return app;
    },
  };

  describe.each(['standalone', 'express', 'fastify', 'microservice'] as const)('%s', (main) => {
    it.each([
      ['by Nest', []],
      ['by a hook of its own', [Impatient]],
    ])(
      'G1: the DataSource is destroyed %s while a publish is out: it is finished and settled',
      async (_who, providers) => {
        const transport = new GatedTransport();
        @Module({
          imports: [
            TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 } as object),
            OutboxModule.forRoot(quiet({ transports: { default: transport }, shutdownTimeout: '1m' })),
          ],
          providers,
        })
        class Shop {}
        const app = await applicationOf[main](Shop);
        const dataSource = app.get(DataSource);
        const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
        await until(() => transport.handed.includes(id));
        if (providers.length > 0) await dataSource.destroy(); // the earliest that can be
        const closed = app.close();
        transport.gate.open();
        await closed;
        expect({ destroyed: !dataSource.isInitialized, published: transport.ids, closed: transport.closed }).toEqual({
          destroyed: true,
          published: [id],
          closed: 1,
        });
        expect(await left()).toBe(0);
      },
    );
  });

  it('G3: a database that fell silent keeps no application from ending', async () => {
    const proxy = await TcpProxy.start(requiredUrl(kind));
    const url = new URL(database.url);
    url.host = `127.0.0.1:${proxy.port}`;
    const dataSource = await new DataSource({ ...database.options, url: url.href } as DataSourceOptions).initialize();
    const transport = new GatedTransport();
    const app = await build([
      OutboxModule.forRoot({ ...quiet({ transports: { default: transport }, shutdownTimeout: 500 }), dataSource }),
    ]).compile();
    await app.init();
    const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(() => transport.handed.includes(id));
    proxy.set({ up: 'drop', down: 'drop' });
    transport.gate.open();
    await app.close(); // which nothing else would end
    await proxy.close();
    await dataSource.destroy().catch(() => undefined);
  });

  it('G8: a dead-letter hook that never ends is given up in time, tried again, and keeps nothing from ending', async () => {
    const transport = new MoodyTransport();
    let calls = 0;
    const app = await applications.start(
      build([
        typeOrm(database),
        OutboxModule.forRoot(
          quiet({
            transports: { default: transport },
            retry: { maxAttempts: 1 },
            publishTimeout: 200,
            shutdownTimeout: 500,
            database: { prefix: 'hook_' },
            deadLetter: () => (++calls, new Promise(() => {})),
          }),
        ),
      ]),
    );
    const outbox = app.get(OutboxService);
    const errors: string[] = [];
    outbox.events.on('error', ({ operation, error }) => errors.push(`${operation} ${String(error)}`));
    await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(() => errors.length > 0);
    expect(errors[0]).toMatch(/^deadLetter .*did not end within 200 ms/);
    transport.refuses = false;
    const other = await outbox.enqueueOutsideTransaction(new OrderPlaced('2'));
    await until(() => transport.ids.includes(other));
    void app
      .get(OutboxDispatcher)
      .runOnce()
      .catch(() => {}); // looks at dead letters now
    await until(() => calls >= 2);
    await applications.close(); // which nothing else would end
  });

  const start = (...more: any[]) =>
    applications.start(build([typeOrm(database), ...more, OutboxModule.forRoot(quiet())]));
  it('G5: leaves nothing behind, twenty times: no timer, no socket, no listener, no session', async () => {
    const handles = (): number => process.getActiveResourcesInfo().filter((kind) => kind !== 'Immediate').length;
    const listeners = (): number => process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
    const admin = await new DataSource(database.options).initialize();
    const sessions = async (): Promise<number> => {
      const [{ n }] = await admin.query(
        kind === 'postgres'
          ? 'select count(*) as n from pg_stat_activity where datname = current_database()'
          : 'select count(*) as n from information_schema.processlist where db = database()',
      );
      return Number(n);
    };
    await start();
    await applications.close();
    const before = handles();
    const [listening, connected] = [listeners(), await sessions()];
    for (let i = 0; i < 20; i++) {
      await start(ScheduleModule.forRoot());
      await applications.close();
    }
    await until(() => handles() <= before);
    expect(listeners()).toBe(listening);
    await until(async () => (await sessions()) <= connected);
    await admin.destroy();
    expect((globalThis as any)[Symbol.for('nestjs-outbox:instances')].instances.size).toBe(0);
  });

  it('G9: each start is another owner, also in the same process', async () => {
    const owners = new Set<string>();
    for (let i = 0; i < 3; i++) {
      const app = await start();
      const { owner } = app.get(OutboxDispatcher).status();
      expect(owner).toMatch(/^[\da-f-]{36}$/);
      owners.add(owner);
      if (i === 1) {
        await app.get(OutboxDispatcher).stop();
        await app.get(OutboxDispatcher).start();
        owners.add(app.get(OutboxDispatcher).status().owner);
      }
      await applications.close();
    }
    expect(owners.size).toBe(4);
  });
});
