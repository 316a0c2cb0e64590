import type { DynamicModule } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith, DATABASES } from '../support/services.js';
import { plainBlocks, runOn } from './sql.js';

/** A Nest application on the database as this user; nothing runs until told. */
class Shop {
  readonly transport = new RecordingTransport();
  /** @internal */ app: TestingModule | undefined;

  async start(options: DataSourceOptions, outbox: Partial<OutboxOptions>): Promise<TestingModule> {
    const database: DynamicModule = TypeOrmModule.forRoot({ ...options, retryAttempts: 0 });
    const module = OutboxModule.forRoot({ transports: { default: this.transport }, logLevel: 'silent', ...outbox });
    const builder = Test.createTestingModule({ imports: [database, module] }).setLogger(false as never);
    this.app = await builder.compile();
    return this.app.init();
  }
  published(): { topic: string; key: string | null; type: string; version: number; payload: string | undefined }[] {
    return this.transport.published.map(({ topic, key, type, version, payload }) => ({
      topic,
      key,
      type,
      version,
      payload: payload?.toString('latin1'),
    }));
  }
  async stop(): Promise<void> {
    await this.app?.close();
    this.app = undefined;
  }
}

describe.each(DATABASES)('SQL of the documents on %s', (kind) => {
  describeWith(kind, 'as it stands there', () => {
    const shops: Shop[] = [];
    let database: TestDatabase;
    let admin: DataSource;

    beforeEach(async () => {
      database = await createTestDatabase(kind);
      admin = await new DataSource({ ...database.options, poolSize: 2 } as DataSourceOptions).initialize();
    });
    afterEach(async () => {
      await Promise.all(shops.splice(0).map((shop) => shop.stop()));
      await admin.destroy();
      await database.drop();
    });
    const open = async (options: DataSourceOptions, outbox: Partial<OutboxOptions>): Promise<[Shop, TestingModule]> => {
      const shop = new Shop();
      shops.push(shop);
      return [shop, await shop.start(options, outbox)];
    };
    it('publishes what other programs insert', async () => {
      const [shop, app] = await open(database.options, { relay: 'manual', database: { setup: 'create' } });
      const blocks = plainBlocks(kind);
      expect(blocks.filter(({ text }) => text.includes('insert into outbox_')).length).toBeGreaterThanOrEqual(2);
      const ours = (type: string) =>
        app.get(OutboxService).enqueueOutsideTransaction({ type, topic: 'orders', key: 'order-4712', payload: {} });
      await ours('before');
      await runOn(admin, blocks);
      await ours('after');
      await app.get(OutboxDispatcher).drain();
      const published = shop.published();
      const sameKey = published.filter(({ key }) => key === 'order-4712').map(({ type }) => type);
      expect(sameKey).toEqual(['before', 'order.placed', 'after']);
      const theirs = published.filter(({ type }) => type !== 'before' && type !== 'after');
      const byTopic = new Map(theirs.map((one) => [one.key ?? one.topic, one]));
      expect(Object.fromEntries(byTopic)).toEqual({
        'order-4711': expect.objectContaining({
          topic: 'orders',
          type: 'orders',
          version: 1,
          payload: '{"orderId":"order-4711","total":10}',
        }),
        'order-4712': expect.objectContaining({ topic: 'orders', type: 'order.placed', version: 2 }),
        thumbnails: expect.objectContaining({ type: 'thumbnails', payload: '\x89PNG' }),
      });
      const traced = shop.transport.published.find(({ type }) => type === 'order.placed');
      expect(traced?.headers).toEqual({ traceparent: expect.stringMatching(/^00-0af7/) });
      expect((await app.get(OutboxService).stats()).total.scheduled).toBe(kind === 'postgres' ? 1 : 0);
    });

    it('shows each state by the documented word', async () => {
      const outbox: Partial<OutboxOptions> = { onPublished: 'archive', retry: { initial: '1h', max: '1h' } };
      const [shop, app] = await open(database.options, { relay: 'manual', database: { setup: 'create' }, ...outbox });
      const enqueue = (type: string, key: string | null, delay = 0) =>
        app.get(OutboxService).enqueueOutsideTransaction({ type, key, payload: {}, ...(delay > 0 ? { delay } : {}) });
      shop.transport.fail({ when: ({ type }) => type === 'waiting' });
      shop.transport.fail({ final: true, when: ({ type }) => type === 'dead' });
      for (const [type, key] of [
        ['waiting', 'a'],
        ['blocked', 'a'],
        ['dead', 'b'],
        ['published', 'c'],
      ] as const)
        await enqueue(type, key);
      await app.get(OutboxDispatcher).drain();
      await enqueue('scheduled', null, 3_600_000);
      await enqueue('ready', null);
      const rows = (await admin.query('select state, type from outbox_messages')) as { state: string; type: string }[];
      expect(rows.map(({ state }) => state).sort()).toEqual([
        'blocked',
        'dead',
        'published',
        'ready',
        'scheduled',
        'waiting',
      ]);
      expect(rows.filter(({ state, type }) => state !== type)).toEqual([]);
    });
  });
});
