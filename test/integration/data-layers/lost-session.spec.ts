// @tier gate
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService } from '../../../lib/index.js';
import { RecordingTransport } from '../../../lib/testing/index.js';
import { HOSTS, type Hosted } from '../../support/data-layer-hosts.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeWith } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until, untilDone } from '../../support/until.js';

const message = { type: 'm', payload: 1 };

describe.each(HOSTS)('a session that is lost in a transaction of %s on %s', (_, kind, library) => {
  describeWith(kind, 'behind an enqueue', () => {
    let database: TestDatabase;
    let admin: DataSource;
    let proxy: TcpProxy;
    let hosted: Hosted;
    let app: Awaited<ReturnType<typeof NestFactory.createApplicationContext>>;
    let outbox: OutboxService;

    beforeAll(async () => {
      database = await createTestDatabase(kind);
      admin = await new DataSource(database.options).initialize();
      await admin.query('create table thing (id int primary key)');
      proxy = await TcpProxy.start(database.url);
      const url = Object.assign(new URL(database.url), { port: String(proxy.port), hostname: proxy.host }).href;
      hosted = await library({ ...database, url, options: { ...database.options, url } as never });
      const module = OutboxModule.forRoot({
        dataLayer: hosted.dataLayer,
        transports: { default: new RecordingTransport() },
        relay: 'manual',
        database: { setup: 'create' },
        logLevel: 'silent',
      });
      app = await NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
      outbox = app.get(OutboxService);
    });
    beforeEach(async () => {
      await admin.query('delete from thing');
      await admin.query('delete from outbox_ready');
    });
    afterAll(async () => {
      await app?.close();
      await hosted?.close();
      await proxy?.close();
      await admin?.destroy();
      await database?.drop();
    });

    const count = async (table: string): Promise<number> =>
      Number((await admin.query(`select count(*) as n from ${table}`))[0].n);
    const committed = async () => ({ things: await count('thing'), messages: await count('outbox_ready') });
    const transaction = (id: number, behind: (tx: object) => Promise<unknown> = async () => undefined): Promise<void> =>
      hosted.dataLayer.transaction(async (tx) => {
        await hosted.run(tx, `insert into thing values (${id})`);
        await outbox.enqueue(message, { tx: tx as never });
        await behind(tx);
      });
    const sessions = (): Promise<{ id: number }[]> =>
      admin.query(
        kind === 'postgres'
          ? `select pid as id from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`
          : `select p.id from information_schema.innodb_trx t join information_schema.processlist p
               on p.id = t.trx_mysql_thread_id where p.db = database()`,
      );
    /** The server ends the one that is in a transaction. */
    async function kill(): Promise<void> {
      const found = await sessions();
      expect(found).toHaveLength(1);
      await admin.query(kind === 'postgres' ? `select pg_terminate_backend(${found[0]!.id})` : `kill ${found[0]!.id}`);
      await until(async () => (await sessions()).length === 0);
    }
    /** A library may have one more connection that was lost, and hear of it by then. */
    async function assertGoesOn(): Promise<void> {
      const before = await committed();
      await untilDone(() => transaction(2));
      expect(await committed()).toEqual({ things: before.things + 1, messages: before.messages + 1 });
    }

    it('rejects the COMMIT, and leaves no row and no message', async () => {
      await expect(transaction(1, kill)).rejects.toThrow();
      expect(await committed()).toEqual({ things: 0, messages: 0 });
      await assertGoesOn();
    });

    it('rejects also where the application swallows the error of a statement and of a message', async () => {
      const swallowing = transaction(1, async (tx) => {
        await kill();
        await expect(hosted.run(tx, 'insert into thing values (3)')).rejects.toThrow();
        await expect(outbox.enqueue(message, { tx: tx as never })).rejects.toThrow();
      });
      await expect(swallowing).rejects.toThrow();
      expect(await committed()).toEqual({ things: 0, messages: 0 });
      await assertGoesOn();
    });

    it('rejects where the answer of the COMMIT is lost: the row is there with its message', async () => {
      const answers = Promise.allSettled([transaction(1, async () => proxy.set({ down: 'hold' }))]);
      await until(async () => (await count('thing')) === 1);
      proxy.cut();
      expect(await answers).toMatchObject([{ status: 'rejected' }]);
      proxy.heal();
      expect(await committed()).toEqual({ things: 1, messages: 1 });
      await assertGoesOn();
    });
  });
});
