import {
  Injectable,
  Module,
  type DynamicModule,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import type { TestingModule } from '@nestjs/testing';
import { Transport } from '@nestjs/microservices';
import { DataSource } from 'typeorm';
import {
  getOutboxToken,
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type OutboxOptions,
} from '../../lib/index.js';
import { gate } from '../support/transport-relay.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { httpAdapter, HTTP_SERVERS, type HttpServer } from '../support/http.js';
import { describeWith } from '../support/services.js';
import { build, OrderPlaced, quiet, typeOrm, until } from './support/app.js';

/** What handlers need: opened at the bootstrap, closed with its module. */
@Injectable()
class Smtp implements OnApplicationBootstrap, OnModuleDestroy {
  readonly log: string[] = [];
  open = false;

  constructor(readonly modules: ModuleRef) {}

  async onApplicationBootstrap(): Promise<void> {
    this.log.push(`relay ${this.relayRuns ? 'before' : 'after'} bootstrap`);
    this.open = true;
  }
  async onModuleDestroy(): Promise<void> {
    this.log.push(`relay ${this.relayRuns ? 'after' : 'before'} destroy`);
    this.open = false;
  }
  get relayRuns(): boolean {
    return [undefined, 'audit'].some((name) => {
      const token = getOutboxToken(name, OutboxDispatcher);
      return this.modules.get<OutboxDispatcher>(token, { strict: false }).status().running;
    });
  }
}

const served = async (compiled: TestingModule, server: HttpServer) =>
  compiled.createNestApplication(httpAdapter(server), { logger: false }).init();
const STARTS = {
  'an application context': (compiled: TestingModule) => compiled.init(),
  'an application on Express': (compiled: TestingModule) => served(compiled, 'express'),
  'an application on Fastify': (compiled: TestingModule) => served(compiled, 'fastify'),
  'a microservice': async (compiled: TestingModule) => {
    const app = compiled.createNestMicroservice({ transport: Transport.TCP, options: { port: 0 }, logger: false });
    await app.listen();
    return app;
  },
};

describeWith('postgres', 'The order of hooks', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  afterAll(() => database.drop());
  let prefixes = 0;

  const outboxes = (isGlobal: boolean, options: Partial<OutboxOptions>): DynamicModule[] =>
    ['default', 'audit'].map((name) =>
      OutboxModule.forRoot({
        ...quiet({ ...options, database: { setup: 'create', prefix: `o${++prefixes}_` } }),
        ...(name === 'default' ? {} : { name }),
        isGlobal,
      }),
    );

  it.each([
    { kind: 'an application context', isGlobal: true, place: 'first' },
    { kind: 'an application context', isGlobal: false, place: 'last' },
    { kind: 'an application on Express', isGlobal: false, place: 'first' },
    { kind: 'an application on Fastify', isGlobal: false, place: 'last' },
    { kind: 'a microservice', isGlobal: true, place: 'last' },
  ] as const)(
    'L1: the relay runs between the bootstrap and the destruction of a handler’s module: $kind, global $isGlobal, imported $place',
    async ({ kind, isGlobal, place }) => {
      const busy = gate();
      const calls: string[] = [];
      const imports = outboxes(isGlobal, { transports: { default: inProcess() } });
      @Injectable()
      class Mailer {
        constructor(readonly smtp: Smtp) {}
        @OnOutboxEvent(OrderPlaced)
        async send({ orderId }: OrderPlaced): Promise<void> {
          calls.push(orderId);
          if (orderId === 'busy') await busy.opened;
          if (!this.smtp.open) throw new Error('smtp is closed');
        }
      }
      @Module({ providers: [Smtp, Mailer] })
      class MailModule {}
      /** Enqueues before anybody's bootstrap. */
      @Module({ imports: [MailModule, ...imports] })
      class Shop {
        constructor(readonly modules: ModuleRef) {}
        async onModuleInit(): Promise<void> {
          for (const name of [undefined, 'audit']) {
            const outbox = this.modules.get<OutboxService>(getOutboxToken(name), { strict: false });
            await outbox.enqueueOutsideTransaction(new OrderPlaced('waiting'));
          }
        }
      }
      const all = place === 'first' ? [...imports, MailModule, Shop] : [Shop, MailModule, ...imports];
      const compiled = await build([typeOrm(database), ...all]).compile();
      const app = await STARTS[kind](compiled);
      await until(() => calls.length >= 2);
      await compiled.get(OutboxService, { strict: false }).enqueueOutsideTransaction(new OrderPlaced('busy'));
      await until(() => calls.length >= 3);
      const counted = await waiting(compiled.get(DataSource, { strict: false }), () => busy.open(), app);
      expect(compiled.get(Smtp, { strict: false }).log).toEqual(['relay after bootstrap', 'relay before destroy']);
      expect({ calls, counted }).toEqual({ calls: ['waiting', 'waiting', 'busy'], counted: [] });
    },
  );

  /** Closes while a handler is at work. @returns what is left in the tables */
  async function waiting(dataSource: DataSource, go: () => void, app: { close(): Promise<void> }): Promise<unknown[]> {
    const closing = app.close();
    setImmediate(go);
    await closing;
    const after = await new DataSource(dataSource.options).initialize();
    try {
      return (await after.query(`select type, attempts from o${prefixes}_messages`)) as unknown[];
    } finally {
      await after.destroy();
    }
  }

  it('L2: a relay that somebody starts after close is refused, and one that a hook starts again is stopped', async () => {
    @Injectable()
    class Restless implements OnModuleDestroy {
      constructor(readonly dispatcher: OutboxDispatcher) {}
      onModuleDestroy(): Promise<void> {
        return this.dispatcher.start();
      }
    }
    const [imports] = outboxes(true, {});
    const compiled = await build([typeOrm(database), imports as DynamicModule], [Restless]).compile();
    const dispatcher = compiled.get(OutboxDispatcher);
    await (await compiled.init()).close();
    expect(dispatcher.status().running).toBe(false);
    for (const call of [() => dispatcher.start(), () => dispatcher.runOnce(), () => dispatcher.drain()]) {
      await expect(call()).rejects.toMatchObject({
        code: 'NOT_STARTED',
        message: expect.stringContaining('is closed'),
      });
    }
    expect(dispatcher.status().running).toBe(false);
  });

  it.each(HTTP_SERVERS)('L2: an application on %s that is closed while it starts leaves no relay', async (server) => {
    const held = gate();
    const reached = gate();
    class Slow implements OnApplicationBootstrap {
      onApplicationBootstrap(): Promise<void> {
        reached.open();
        return held.opened;
      }
    }
    const [imports] = outboxes(true, {});
    const compiled = await build([typeOrm(database), imports as DynamicModule], [Slow]).compile();
    const app = compiled.createNestApplication(httpAdapter(server), { logger: false });
    const starting = app.init();
    await reached.opened;
    await app.close(); // an HTTP application of Nest does not wait for its init
    held.open();
    await starting;
    expect(compiled.get(OutboxDispatcher).status()).toMatchObject({ running: false, transports: [] });
  });
});
