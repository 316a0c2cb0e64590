import { createSocket } from 'node:dgram';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  ConflictException,
  Controller,
  Module,
  Param,
  Post,
  UseInterceptors,
  type INestApplication,
} from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import { OutboxService, type OutboxOptions } from '../../lib/index.js';
import { outboxTesting, overrideOutbox } from '../../lib/testing/index.js';
import { DocumentedModules } from './modules.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { httpAdapter, HTTP_SERVERS } from '../support/http.js';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';

interface Order {
  id: string;
  total: number;
}
type OrderService = new (...args: never[]) => { place(order: Order): Promise<unknown> };
type Class = new (...args: never[]) => object;

describeWith('postgres', 'the example of the README', () => {
  const modules = new DocumentedModules(require);
  let database: TestDatabase;
  let app: TestingModule | INestApplication | undefined;

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    process.env['DATABASE_URL'] = database.url;
  });
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });
  afterAll(async () => {
    delete process.env['DATABASE_URL'];
    await database.drop();
  });

  /** The documented AppModule, its outbox told to record. */
  const builder = (controllers: Class[] = [], providers: Class[] = [], options: Partial<OutboxOptions> = {}) => {
    const { AppModule } = modules.load<{ AppModule: Class }>('src/app.module.ts');
    @Module({ imports: [AppModule], controllers, providers })
    class Root {}
    const testing = Test.createTestingModule({ imports: [Root] }).setLogger(false as never);
    return overrideOutbox(testing, { options: { logLevel: 'silent', ...options } });
  };
  const started = async (): Promise<TestingModule> => {
    const compiled = await builder().compile();
    app = compiled;
    return compiled.init();
  };
  const count = async (of: DataSource, where: string): Promise<number> =>
    ((await of.query(`select count(*)::int as n from ${where}`)) as { n: number }[])[0]?.n as number;

  it('keeps the message of an order when the broker is down, where the dual write loses it', async () => {
    const { OrdersService } = modules.load<{ OrdersService: OrderService }>('src/orders/orders.service.ts');
    const running = await started();
    const dataSource = running.get(DataSource);
    const emit = (): Promise<void> => Promise.reject(new Error('the broker is down'));
    const insert = dataSource.query(`insert into orders (id, total) values ('dual', 1)`);
    await expect(insert.then(emit)).rejects.toThrow('the broker is down'); // the order is there, and nobody tells of it
    expect(await count(dataSource, `orders where id = 'dual'`)).toBe(1);

    const outbox = outboxTesting(running);
    const back = outbox.transport().fail({ blame: 'transport', error: new Error('the broker is down') });
    await running.get(OrdersService).place({ id: 'kept', total: 2 });
    await outbox.drain();
    expect(outbox.published()).toEqual([]);
    back();
    await until(async () => (await outbox.drain()).published > 0);
    expect(outbox.published().map(({ key, payload }) => ({ key, payload }))).toEqual([
      { key: 'kept', payload: { orderId: 'kept', total: 2 } },
    ]);
  });

  it.each(HTTP_SERVERS)('has an interceptor that keeps the transaction around a request, on %s', async (server) => {
    const { TransactionInterceptor } = modules.load<{ TransactionInterceptor: Class }>(
      'src/transaction.interceptor.ts',
    );
    @Controller('shop')
    @UseInterceptors(TransactionInterceptor)
    class Shop {
      constructor(readonly outbox: OutboxService) {}

      @Post(':name')
      async place(@Param('name') name: string): Promise<string> {
        const id = await this.outbox.enqueue({ type: 'asked', key: name, payload: {} });
        if (name === 'bad') throw new ConflictException('rolled back');
        return id;
      }
    }
    const compiled = await builder([Shop], [TransactionInterceptor]).compile();
    app = compiled.createNestApplication(httpAdapter(server));
    await app.init();
    await (app as INestApplication).listen(0, '127.0.0.1');
    const { port } = (app as INestApplication).getHttpServer().address() as AddressInfo;
    const post = (name: string) => fetch(`http://127.0.0.1:${port}/shop/${name}`, { method: 'POST' });
    const [good, bad] = [await post('good'), await post('bad')];
    expect([good.status, bad.status]).toEqual([201, 409]);
    expect(outboxTesting(app).enqueued()).toEqual([expect.objectContaining({ id: await good.text(), key: 'good' })]);
  });

  it('has a recipe that counts for StatsD', async () => {
    const { OutboxStatsd } = modules.load<{ OutboxStatsd: Class }>('src/outbox-statsd.ts');
    const receiver = createSocket('udp4');
    const lines: string[] = [];
    receiver.on('message', (datagram) => lines.push(String(datagram)));
    await new Promise<void>((resolve) => receiver.bind(0, '127.0.0.1', resolve));
    process.env['STATSD_PORT'] = String(receiver.address().port);
    try {
      const compiled = await builder([], [OutboxStatsd]).compile();
      app = compiled;
      const running = await compiled.init();
      const outbox = running.get(OutboxService);
      await outbox.transaction(() =>
        outbox.enqueue([
          { type: 'seen', payload: 1 },
          { type: 'seen', payload: 2 },
        ]),
      );
      await outboxTesting(running).drain();
      await until(() => lines.length > 1);
      expect(lines.map((line) => line.replace(/published\.\w+/, 'published.one')).sort()).toEqual([
        'outbox.enqueued:2|c',
        'outbox.published.one:2|c',
      ]);
    } finally {
      receiver.close();
      delete process.env['STATSD_PORT'];
    }
  });

  it('has a consumer that applies each message once, and again when it failed', async () => {
    const { StockModule, StockController } = modules.load<Record<string, Class>>('src/stock/stock.module.ts');
    app = await Test.createTestingModule({ imports: [StockModule as Class] }).compile();
    await app.init();
    const stock = app.get<{ take(message: object): Promise<void> }>(StockController as Class);
    const take = (id: string): Promise<void> =>
      stock.take({
        id,
        ...{ type: 'order.placed', contentType: 'application/json', version: 1, time: new Date(), headers: {} },
        payload: { product: 'p', count: 1 },
      });
    await expect(take('first')).rejects.toThrow('relation "stock" does not exist');
    const dataSource = app.get(DataSource);
    await dataSource.query(`create table stock as select 'p' as product, 10 as count`);
    await Promise.all([take('first'), take('first'), take('second')]);
    await take('first');
    expect(await dataSource.query('select count from stock')).toEqual([{ count: 8 }]);
  });
});

describe('the transport of the README', () => {
  let server: Server;
  const modules = new DocumentedModules(require);

  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume().once('end', () => response.writeHead(request.headers['message-id'] ? 204 : 400).end());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    process.env['WEBHOOK_URL'] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    delete process.env['WEBHOOK_URL'];
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  modules.load('src/webhook.transport.spec.ts'); // the contract suite, as documented
});
