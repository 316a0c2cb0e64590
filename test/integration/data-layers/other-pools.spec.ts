// @tier gate
import { NestFactory } from '@nestjs/core';
import { createPool } from 'mysql2/promise';
import { mysql2Layer } from 'nestjs-outbox/mysql2';
import { pgLayer } from 'nestjs-outbox/pg';
import { typeOrmLayer } from 'nestjs-outbox/typeorm';
import { Client, Pool, type PoolClient } from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService, type OutboxOptions } from '../../../lib/index.js';
import { RecordingTransport } from '../../../lib/testing/index.js';
import { unshaken } from '../../support/data-layer.js';
import { HOSTS } from '../../support/data-layer-hosts.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeOnEach, describeWith, type DatabaseKind } from '../../support/services.js';

const REQUIRED = { code: 'TRANSACTION_REQUIRED' };
const OPTIONS = { relay: 'manual', logLevel: 'silent' } as const;
const SCHEMAS = Array.from({ length: 12 }, (_, n) => `tenant_${n}`);
const message = { type: 'm', payload: 1 };

/** What is opened is closed in reverse order. */
function useClosing(): (() => Promise<unknown>)[] {
  const closing: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
  });
  return closing;
}

async function start(closing: (() => Promise<unknown>)[], options: Partial<OutboxOptions>) {
  const transport = new RecordingTransport();
  const declared = OutboxModule.forRoot({ ...OPTIONS, transports: { default: transport }, ...options });
  const app = await NestFactory.createApplicationContext(declared, { logger: false, abortOnError: false });
  closing.push(() => app.close());
  const published = async (): Promise<{ key: string | null; payload: unknown }[]> => {
    await app.get(OutboxDispatcher).drain();
    return transport.published.map(({ key, payload }) => ({
      key,
      payload: JSON.parse(new TextDecoder().decode(payload as Uint8Array)) as unknown,
    }));
  };
  return { outbox: app.get(OutboxService), published };
}

describeOnEach([], 'tenants with a schema each, and one outbox in another one', (kind) => {
  const closing = useClosing();
  let database: TestDatabase;
  let own: DataSource;
  const sources: DataSource[] = [];
  /** On MariaDB and MySQL a schema is a database of the server. */
  const nameOf = (schema: string): string =>
    kind === 'postgres' ? schema : `${new URL(database.url).pathname.slice(1)}_${schema}`;
  const open = async (place: object): Promise<DataSource> => {
    const options = { ...database.options, poolSize: 1, ...place } as DataSourceOptions;
    const source = await new DataSource(options).initialize();
    closing.push(() => source.destroy());
    return source;
  };
  const placeOf = (name: string): object => {
    if (kind === 'postgres') return { schema: name, extra: { options: `-c search_path=${name}` } };
    const url = new URL(database.url);
    url.pathname = `/${name}`;
    return { url: url.href };
  };

  beforeAll(async () => {
    database = await createTestDatabase(kind);
    closing.push(() => database.drop());
    own = await open({});
    for (const schema of ['outbox', ...SCHEMAS].map(nameOf)) {
      await own.query(`create schema ${schema}`);
      if (kind !== 'postgres') closing.push(() => own.query(`drop schema ${schema}`));
      await own.query(`create table ${schema}.invoice (id int primary key)`);
    }
    for (const schema of SCHEMAS) sources.push(await open(placeOf(nameOf(schema))));
  });

  it.each(['key', 'strict'] as const)('keeps the order of each key, ordering %s', async (ordering) => {
    const { outbox, published } = await start(closing, {
      dataLayer: typeOrmLayer(own),
      ordering,
      database: { schema: nameOf('outbox'), prefix: `${ordering}_`, setup: 'create' },
    });
    const large = 'x'.repeat(100_000);
    for (let n = 0; n < 5; n += 1) {
      const work = sources.map((source, tenant) =>
        source.transaction(async (manager) => {
          await manager.query(`insert into invoice values (${n + (ordering === 'key' ? 0 : 5)})`);
          const written = { type: 'm', key: `t${tenant}`, dedupKey: `t${tenant} ${n}`, payload: { n, large } };
          const ids = await Promise.all([outbox.enqueue(written, { manager }), outbox.enqueue(written, { manager })]);
          expect(ids[0]).toBe(ids[1]);
          if (n === 4) await outbox.with(manager).enqueue(message, { delay: '1h' });
        }),
      );
      await Promise.all(work);
    }
    const failed = sources[0]!.transaction(async (manager) => {
      await outbox.enqueue({ ...message, key: 't0' }, { manager });
      throw new Error('rolled back');
    });
    await expect(failed).rejects.toThrow('rolled back');
    const messages = await published();
    const ofKey = (key: string) =>
      messages.filter((one) => one.key === key).map(({ payload }) => (payload as { n: number }).n);
    expect(sources.map((_, tenant) => ofKey(`t${tenant}`))).toEqual(sources.map(() => [0, 1, 2, 3, 4]));
    expect((await outbox.stats()).total).toMatchObject({ ready: 0, scheduled: SCHEMAS.length });
    const counts = SCHEMAS.map((schema) => own.query(`select count(*) as n from ${nameOf(schema)}.invoice`));
    for (const rows of await Promise.all(counts)) expect(Number(rows[0].n)).toBe(ordering === 'key' ? 5 : 10);
  });

  it('tells of a commit at once, and asks a DataSource once', async () => {
    const { outbox } = await start(closing, {
      dataLayer: typeOrmLayer(own),
      database: { schema: nameOf('outbox'), prefix: 'once_', setup: 'create' },
    });
    const source = await open(placeOf(nameOf('tenant_0')));
    const told = new Promise<void>((resolve) => outbox.events.on('enqueued', () => resolve()));
    await source.transaction((manager) => outbox.enqueue(message, { manager }));
    await told;
    // The outbox's own address leads nowhere now: whoever asked again would fail.
    const { options } = own;
    Object.assign(own, { options: { ...options, url: database.url.replace(/:\d+\//, ':1/') } });
    try {
      await source.transaction((manager) => outbox.enqueue(message, { manager }));
      const unknown = await open(placeOf(nameOf('tenant_1')));
      const asked = unknown.transaction((manager) => outbox.enqueue(message, { manager }));
      await expect(asked).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    } finally {
      Object.assign(own, { options });
    }
    expect((await outbox.stats()).total.ready).toBe(2);
  });

  it('refuses a transaction whose end is on its way, the first of its DataSource, and takes the next', async () => {
    const { outbox } = await start(closing, {
      dataLayer: typeOrmLayer(own),
      database: { schema: nameOf('outbox'), prefix: 'ends_', setup: 'create' },
    });
    const source = await open(placeOf(nameOf('tenant_0')));
    const runner = source.createQueryRunner();
    await runner.startTransaction();
    const ended = runner.rollbackTransaction();
    await expect(outbox.enqueue(message, { manager: runner })).rejects.toMatchObject(REQUIRED);
    await ended;
    await runner.startTransaction();
    await outbox.enqueue(message, { manager: runner });
    await runner.commitTransaction();
    await runner.release();
    expect((await outbox.stats()).total.ready).toBe(1);
  });
});

/** In another database; on MariaDB and MySQL on another server, as a schema is a database there. */
const ELSEWHERE = { postgres: 'postgres', mariadb: 'mysql', mysql: 'mariadb' } as const;

describe.each(HOSTS)('a transaction of another database, with %s on %s', (_, kind, library) => {
  describeWith([kind, ELSEWHERE[kind]], 'which has the same tables', () => {
    const closing = useClosing();
    const open = async (on: DatabaseKind) => {
      const database = await createTestDatabase(on);
      closing.push(() => database.drop());
      const { dataLayer, close } = await library(database);
      closing.push(close);
      return { dataLayer, ...(await start(closing, { dataLayer, database: { setup: 'create' } })) };
    };

    it('is refused, and goes on', async () => {
      const [own, other] = [await open(kind), await open(ELSEWHERE[kind])];
      for (const _time of ['asked', 'known'])
        await other.dataLayer.transaction(async (tx) => {
          const refused = own.outbox.enqueue(message, { tx: tx as never });
          await expect(refused).rejects.toMatchObject({
            ...REQUIRED,
            message: expect.stringMatching(
              /not of the outbox|belongs to another DataSource than the outbox\. .*another database/,
            ),
          });
          await other.outbox.enqueue(message, { tx: tx as never });
        });
      expect([await own.published(), await other.published()]).toMatchObject([[], [{ payload: 1 }, { payload: 1 }]]);
    });
  });
});

describeWith('postgres', 'the pools of one database', () => {
  const closing = useClosing();

  it('asks one connection more for each pool, and takes none whose layer was not made', async () => {
    const database = await createTestDatabase('postgres');
    closing.push(() => database.drop());
    let clients = 0;
    class Counted extends Client {
      constructor(options?: object) {
        super(options);
        clients += 1;
      }
    }
    const open = (): Pool => {
      const pool = unshaken(new Pool({ connectionString: database.url, max: 1 }));
      Object.assign(pool, { Client: Counted });
      closing.push(() => pool.end());
      return pool;
    };
    const { outbox } = await start(closing, {
      dataLayer: pgLayer(open()),
      database: { setup: 'create' },
      wakeUp: 'poll',
    });
    const [withLayer, without] = [open(), open()];
    const layer = pgLayer(withLayer);
    const enqueue = (tx: PoolClient): Promise<string> => outbox.enqueue(message, { tx: tx as never });
    await layer.transaction(async () => undefined);
    const before = clients;
    for (let n = 0; n < 3; n += 1) await layer.transaction(enqueue);
    expect(clients).toBe(before + 1);
    const client = await without.connect();
    await client.query('begin');
    await expect(enqueue(client)).rejects.toMatchObject(REQUIRED);
    await client.query('rollback');
    client.release();
    expect((await outbox.stats()).total.ready).toBe(3);
  });
});

describeWith(['postgres', 'mariadb'], 'a transaction of another kind of server', () => {
  const closing = useClosing();

  it('is refused', async () => {
    const [ours, theirs] = [await createTestDatabase('postgres'), await createTestDatabase('mariadb')];
    const [pool, other] = [unshaken(new Pool({ connectionString: ours.url })), createPool(theirs.url)];
    closing.push(
      () => ours.drop(),
      () => theirs.drop(),
      () => pool.end(),
      () => other.end(),
    );
    const { outbox } = await start(closing, { dataLayer: pgLayer(pool), database: { setup: 'create' } });
    const refused = mysql2Layer(other).transaction((tx) => outbox.enqueue(message, { tx: tx as never }));
    await expect(refused).rejects.toMatchObject({ ...REQUIRED, message: expect.stringContaining('not of the outbox') });
  });
});
