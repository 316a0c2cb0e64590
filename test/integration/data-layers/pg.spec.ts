// @tier gate
import { EventEmitter, once } from 'node:events';
import type { Socket } from 'node:net';
import { NestFactory } from '@nestjs/core';
import { PrismaPg } from '@prisma/adapter-pg';
import { drizzle } from 'drizzle-orm/node-postgres';
import { Client, Pool, Query, type PoolClient } from 'pg';
import { drizzleLayer } from 'nestjs-outbox/drizzle';
import { pgLayer } from 'nestjs-outbox/pg';
import { prismaLayer } from 'nestjs-outbox/prisma';
import { OutboxModule, OutboxService, type OutboxDataLayer } from '../../../lib/index.js';
import { RecordingTransport } from '../../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { PrismaClient } from '../../support/prisma/client.js';
import { describeWith } from '../../support/services.js';

const message = (payload: number) => ({ type: 'm', payload });
const TOO_LATE = 'TRANSACTION_REQUIRED';
const LOST = new Error('Query read timeout');
const OPTIONS = { relay: 'manual', database: { setup: 'create' }, logLevel: 'silent' } as const;

/** With transactions of its data layer: those of {@link OutboxService} are TypeORM's. */
interface Outbox<Tx> extends Pick<OutboxService, 'events'> {
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: { nested: boolean }): Promise<T>;
  bind<T>(tx: Tx, work: () => T): T;
  enqueue(message: object, options?: { tx: Tx }): Promise<string>;
}

/** What each was answered with: `ok`, or the code of its error. */
async function answers(given: readonly Promise<unknown>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(given);
  return settled.map((one) => (one.status === 'fulfilled' ? 'ok' : (one.reason as { code?: unknown }).code));
}

describeWith('postgres', 'data layers over pg', () => {
  let database: TestDatabase;
  let pool: Pool;
  let admin: Pool;
  let outbox: Outbox<PoolClient>;
  let client: PoolClient;
  let written: string[];
  const told = new Set<string>();
  const closing: (() => Promise<unknown>)[] = [];

  async function start<Tx extends object>(dataLayer: OutboxDataLayer<Tx>): Promise<Outbox<Tx>> {
    const transports = { default: new RecordingTransport() };
    const module = OutboxModule.forRoot({ dataLayer, transports, ...OPTIONS });
    const app = await NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
    closing.unshift(() => app.close());
    return app.get(OutboxService) as unknown as Outbox<Tx>;
  }
  function openPool(): Pool {
    const made = new Pool({ connectionString: database.url, max: 1 });
    made.on('error', () => undefined); // the server ends some
    closing.unshift(() => made.end());
    return made;
  }

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    closing.push(() => database.drop());
    [admin, pool] = [openPool(), openPool()];
    await admin.query('create table thing (id int primary key)');
    outbox = await start(pgLayer(pool));
    outbox.events.on('enqueued', ({ ids }) => ids.forEach((id) => told.add(id)));
  });
  beforeEach(async () => {
    written = [];
    await admin.query('delete from thing; delete from outbox_ready');
    client = await pool.connect();
  });
  afterEach(() => client.release(true));
  afterAll(async () => {
    for (const close of closing) await close();
  });

  const left = async () => {
    const counts = '(select count(*)::int from outbox_ready) as messages, (select count(*)::int from thing) as things';
    return (await admin.query(`select ${counts}`)).rows[0] as { messages: number; things: number };
  };
  const enqueue = async (n: number) => {
    written.push(await outbox.enqueue(message(n), { tx: client }));
  };
  const addThing = (id: number) => client.query('insert into thing values ($1)', [id]);
  const send = async (...texts: string[]) => {
    for (const text of texts) await client.query(text);
  };
  /** How many of this test were told to be committed, when one behind them is. */
  const toldOf = async () => {
    await send('begin');
    await enqueue(9);
    await send('commit');
    while (!told.has(written.at(-1) ?? '')) await outbox.events.once('enqueued');
    return written.filter((id) => told.has(id)).length - 1;
  };
  const submit = (text: string) => once(client.query(new Query(text)), 'end');

  describe('what is called behind a boundary that waits for a write goes behind it', () => {
    it('ROLLBACK TO: it is refused, and not taken back', async () => {
      await send('begin; savepoint a');
      const another = async () => enqueue(3).then(() => addThing(3));
      const given = [enqueue(1), send('rollback to savepoint a'), enqueue(2), addThing(2), another()];
      expect(await answers(given)).toEqual(['ok', 'ok', TOO_LATE, 'ok', TOO_LATE]);
      await send('commit');
      expect(await left()).toEqual({ messages: 0, things: 1 });
    });

    it.each([
      ['commit', 'rollback', { messages: 1, things: 0 }],
      ['rollback', 'commit', { messages: 0, things: 1 }],
    ])('%s, and the next transaction ends with %s: nothing of one is in the other', async (end, next, expected) => {
      await send('begin');
      const given = [enqueue(1), send(end), send('begin'), addThing(1), enqueue(2), send(next)];
      expect(await answers(given)).toEqual(['ok', 'ok', 'ok', 'ok', TOO_LATE, 'ok']);
      expect(await left()).toEqual(expected);
      expect(await toldOf()).toBe(expected.messages);
    });

    it('SAVEPOINT: it is inside', async () => {
      await send('begin');
      await Promise.all([enqueue(1), send('savepoint a'), addThing(1), enqueue(2)]);
      await send('rollback to a', 'commit');
      expect(await left()).toEqual({ messages: 1, things: 0 });
      expect(await toldOf()).toBe(1);
    });
  });

  it('a nested transaction that outlives its own sends nothing into the next one', async () => {
    const steps = new EventEmitter();
    const [begun, over] = [once(steps, 'begun'), once(steps, 'over')];
    const work = async () => {
      steps.emit('begun');
      await over;
    };
    await send('begin');
    const nested = outbox.bind(client, () => outbox.transaction(work, { nested: true }));
    await begun;
    await send('commit', 'begin'); // as Prisma does when its timeout has come
    steps.emit('over');
    await expect(nested).rejects.toMatchObject({ code: TOO_LATE });
    await addThing(1);
    await enqueue(1);
    await send('commit');
    expect(await left()).toEqual({ messages: 1, things: 1 });
  });

  it('the server ends the session of outbox.transaction: it rejects, and the process goes on', async () => {
    const service = await start(pgLayer(openPool()));
    const transaction = service.transaction(async (tx) => {
      const { stream } = (tx as unknown as { connection: { stream: Socket } }).connection;
      const ended = new Promise((resolve) => stream.prependOnceListener('close', resolve)); // whoever throws behind it
      const { rows } = await tx.query('select pg_backend_pid() as pid');
      await service.enqueue(message(1));
      await admin.query('select pg_terminate_backend($1)', [rows[0].pid]);
      await ended;
    });
    await expect(transaction).rejects.toThrow('not queryable');
    expect(await left()).toEqual({ messages: 0, things: 0 });
  });

  it.each([[['begin']], [['begin', 'rollback']]])('answers to %j time out: no transaction stays', async (lost) => {
    const other = openPool();
    other.on('connect', (one) => {
      const query = one.query.bind(one) as (...args: unknown[]) => Promise<unknown>;
      one.query = ((text: string, ...rest: unknown[]) =>
        lost.includes(text) ? query(text).then(() => Promise.reject(LOST)) : query(text, ...rest)) as never;
    });
    const service = await start(pgLayer(other));
    await expect(service.transaction(() => service.enqueue(message(1)))).rejects.toBe(LOST);
    await other.query('insert into thing values ($1)', [10 + lost.length]);
    expect(await left()).toEqual({ messages: 0, things: 1 });
  });

  it.each(['rollback', 'rollback to savepoint sp1'])(
    'pg forgets %j, which it could not send: no COMMIT',
    async (text) => {
      const other = openPool();
      other.on('connect', (one) => {
        const query = one.query.bind(one) as (...args: unknown[]) => Promise<unknown>;
        one.query = ((config: { text: string }, ...rest: unknown[]) =>
          config.text === text ? Promise.reject(LOST) : query(config, ...rest)) as never;
      });
      const db = drizzle(other);
      const service = await start(drizzleLayer(db));
      const takenBack = (tx: Parameters<Parameters<typeof db.transaction>[0]>[0]) =>
        service.enqueue(message(1), { tx }).then(() => tx.rollback());
      const transaction = db.transaction((tx) =>
        text === 'rollback' ? takenBack(tx) : tx.transaction(takenBack).catch(() => undefined),
      );
      await expect(transaction).rejects.toThrow();
      await db.transaction((tx) => tx.execute('insert into thing values (1)'));
      expect(await left()).toEqual({ messages: 0, things: 1 });
    },
  );

  it('what the driver throws at once behind an end that waits is the answer of that statement alone', async () => {
    const nothing = (): Promise<unknown> => client.query(undefined as never);
    expect(nothing).toThrow(TypeError); // as without us
    await send('begin');
    const given = [enqueue(1), send('commit')];
    await expect(nothing()).rejects.toThrow(TypeError);
    expect(await answers([...given, send('select 1')])).toEqual(['ok', 'ok', 'ok']);
    expect(await left()).toEqual({ messages: 1, things: 0 });
  });

  describe('a boundary as a query of the application’s own making', () => {
    it.each([
      ['commit', 1],
      ['rollback', 0],
    ])('%s waits for a write, and tells what became of messages', async (end, n) => {
      await send('begin', 'commit');
      await submit('begin');
      await addThing(1);
      await Promise.all([enqueue(1), submit(end)]);
      expect(await left()).toEqual({ messages: n, things: n });
      expect(await toldOf()).toBe(n);
    });

    it('is refused in a transaction that can only be rolled back', async () => {
      await send('begin');
      const { connection } = client as unknown as { connection: { bind(): void } };
      jest.spyOn(connection, 'bind').mockImplementationOnce(() => {
        throw LOST;
      });
      await expect(enqueue(1)).rejects.toBe(LOST);
      await expect(submit('commit')).rejects.toMatchObject({ code: 'ROLLBACK_ONLY' });
      await submit('rollback');
      expect(await answers([send('select 1')])).toEqual(['ok']);
    });
  });

  const BEGINS = ['select 1; begin', 'rollback; begin', 'begin; commit; begin', 'begin; rollback and chain'];
  it.each(BEGINS)('a transaction is begun on a client that has had one: %s', async (text) => {
    await send('begin', 'commit', text);
    await enqueue(1);
    await send('commit');
    expect(await left()).toEqual({ messages: 1, things: 0 });
  });

  it('a COMMIT that PostgreSQL answers with ROLLBACK rejects, also over Drizzle and Prisma', async () => {
    const refused = { name: 'OutboxRollbackOnlyError', code: 'ROLLBACK_ONLY' };
    await send('begin');
    await enqueue(1);
    const failing = answers([send('select nothing')]);
    await expect(send('commit')).rejects.toMatchObject(refused);
    expect([await failing, await toldOf()]).toEqual([['42703'], 0]);
    const over = openPool();
    const one = await start(drizzleLayer(drizzle(over)));
    const ofOne = one.transaction(async (tx) => {
      await one.enqueue(message(1));
      await answers([tx.execute('select nothing')]);
    });
    await expect(ofOne).rejects.toMatchObject(refused);
    const other = await start(prismaLayer(new PrismaClient({ adapter: new PrismaPg(over) }), over));
    const ofOther = other.transaction(async (tx) => {
      await other.enqueue(message(1));
      await answers([tx.$queryRawUnsafe('select nothing')]);
    });
    await expect(ofOther).rejects.toMatchObject(refused);
  });

  it('what concerns nobody goes to the driver as it is: a callback comes before drain', async () => {
    const order: number[] = [];
    client.query('select 1', () => {
      order.push(1);
      client.query('select 2', () => order.push(2));
    });
    await once(client, 'drain');
    expect(order).toEqual([1, 2]);
  });

  it('two layers on one pool have no ambient transaction in common', async () => {
    const both = openPool();
    const [one, other] = [await start(pgLayer(both)), await start(drizzleLayer(drizzle(both)))];
    await one.transaction(() => expect(other.enqueue(message(1))).rejects.toMatchObject({ code: TOO_LATE }));
  });

  it('a single client is refused, and no pool at all', () => {
    const refused = expect.objectContaining({ code: 'UNSUPPORTED_DATABASE' });
    expect(() => pgLayer(new Client() as never)).toThrow(refused);
    expect(() => prismaLayer({} as never, undefined as never)).toThrow(refused);
  });
});
