import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { blocksIn } from '../readme/documents.js';
import { createUser, runOn, type DatabaseUser } from '../readme/sql.js';
import { createTestDatabase, runScript, type TestDatabase } from '../support/databases.js';
import { describeWith, DATABASES } from '../support/services.js';

describe.each(DATABASES)('rights of a strict order on %s', (kind) => {
  describeWith(kind, 'as they are documented', () => {
    const open: TestingModule[] = [];
    const users: DatabaseUser[] = [];
    let database: TestDatabase;
    let admin: DataSource;
    let transport: RecordingTransport;

    beforeEach(async () => {
      transport = new RecordingTransport();
      database = await createTestDatabase(kind);
      admin = await new DataSource({ ...database.options, poolSize: 2 } as DataSourceOptions).initialize();
      // As another migration tool would make them: without a schema in their names.
      const { up } = outboxSql(kind === 'postgres' ? 'postgres' : 'mysql', { ordering: 'strict' });
      await runScript(kind, admin, up);
      await (await start(database.options, { relay: 'manual' })).close();
    });
    afterEach(async () => {
      for (const app of open.splice(0)) await app.close();
      for (const user of users.splice(0)) await user.drop();
      await admin.destroy();
      await database.drop();
    });
    const start = async (options: DataSourceOptions, outbox: Partial<OutboxOptions>): Promise<TestingModule> => {
      const defaults: OutboxOptions = { transports: { default: transport }, logLevel: 'silent', ordering: 'strict' };
      const imports = [
        TypeOrmModule.forRoot({ ...options, retryAttempts: 0 }),
        OutboxModule.forRoot({ ...defaults, ...outbox }),
      ];
      const app = await Test.createTestingModule({ imports })
        .setLogger(false as never)
        .compile();
      open.push(app); // also one whose start fails has connections
      return app.init();
    };
    const as = async (documented: string, strict = true): Promise<DataSourceOptions> => {
      const user = await createUser(admin, kind, documented, strict);
      users.push(user);
      expect(user.grants).toBe(strict ? 2 : 1);
      return { ...database.options, url: user.url } as DataSourceOptions;
    };

    const denied = async (user: DataSourceOptions, statements: readonly string[]): Promise<string[]> => {
      const dataSource = await new DataSource(user).initialize();
      const found: string[] = [];
      for (const statement of statements) {
        await dataSource.query(statement).catch((error: Error) => {
          if (error.message.includes('denied')) found.push(statement);
        });
      }
      await dataSource.destroy();
      return found;
    };

    it('are enough: applications, plain SQL and relays, in the order of the commits', async () => {
      const user = await as('shop_api');
      const outbox = (await start(user, { relay: false })).get(OutboxService);
      const message = (type: string) => ({ type, key: 'order-4713', payload: {} });
      await outbox.transaction(async (manager) => {
        // On PostgreSQL everybody may make temporary tables; one with our name must not get what is moved.
        if (kind === 'postgres') await manager.query('create temporary table outbox_ready (id int)');
        await outbox.enqueue(message('before'), { dedupKey: 'a' });
      });
      const writer = await new DataSource(await as('shop_writer')).initialize();
      if (kind !== 'postgres')
        await runOn(
          writer,
          blocksIn('sql', 'mariadb strict').filter(({ text }) => text.startsWith('start')),
        );
      else
        await writer.query(`insert into outbox_messages (topic, key, type) values ('orders', 'order-4713', 'orders')`);
      await writer.destroy();
      await outbox.enqueueOutsideTransaction(message('after'));
      const relay = await start(await as('shop_relay'), { relay: 'manual' });
      await relay.get(OutboxService).enqueueOutsideTransaction(message('own'));
      await relay.get(OutboxDispatcher).drain();
      expect(transport.published.map(({ type }) => type)).toEqual(['before', 'orders', 'after', 'own']);
    });

    it('are needed, and are all', async () => {
      const user = await as('shop_api');
      const refused =
        kind === 'postgres'
          ? ['select tx from outbox_staged', 'delete from outbox_staged', `update outbox_staged set tx = '1'`]
          : [
              'delete from outbox_key_locks',
              'insert into outbox_key_locks (slot) values (1)',
              'truncate outbox_key_locks',
            ];
      const needed =
        kind === 'postgres'
          ? `insert into outbox_staged (bucket, id, topic, type) values (1, gen_random_uuid(), 't', 't')`
          : 'select slot from outbox_key_locks where slot = 1 for update';
      expect(await denied(user, [...refused, needed])).toEqual(refused);
      expect(await denied(await as('shop_api', false), [needed])).toEqual([needed]);
    });
  });
});
