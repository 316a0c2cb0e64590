// @tier gate
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  createConnection as createCoreConnection,
  createPool as createCorePool,
  createPoolCluster,
  type Pool as CorePool,
  type PoolConnection as CoreConnection,
} from 'mysql2';
import { createConnection, createPool, type Connection, type Pool } from 'mysql2/promise';
import type { PoolConnection, PoolOptions } from 'mysql2/promise';
import { mysql2Layer } from 'nestjs-outbox/mysql2';
import { RecordingTransport } from 'nestjs-outbox/testing';
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { OutboxModule, OutboxService } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { refusal } from '../../support/enqueue.js';
import { describeWith, MYSQL_FAMILY } from '../../support/services.js';

describe.each(MYSQL_FAMILY)('%s', (kind) => {
  describeWith(kind, `a connection of mysql2 that the outbox watches, on ${kind}`, () => {
    let database: TestDatabase;
    let beside: Connection;
    let app: INestApplicationContext | undefined;
    let outbox: OutboxService;
    const opened: (() => Promise<unknown>)[] = [];

    beforeAll(async () => {
      database = await createTestDatabase(kind);
      beside = await createConnection({ uri: database.url });
      await beside.query('create table thing (id int not null primary key)');
      await beside.query('create table emptied (id int not null primary key)');
    });
    afterEach(async () => {
      await beside.query('unlock tables');
      await app?.close();
      await Promise.allSettled(opened.splice(0).map((close) => close()));
      await beside.query('delete from thing');
      await beside.query('delete from outbox_ready');
    });
    afterAll(async () => {
      await beside?.end();
      await database?.drop();
    });

    async function start(layer: ReturnType<typeof mysql2Layer>): Promise<void> {
      const outboxModule = OutboxModule.forRoot({
        dataLayer: layer,
        transports: { default: new RecordingTransport() },
        relay: 'manual',
        database: { setup: 'create' },
        logLevel: 'silent',
      });
      app = await NestFactory.createApplicationContext(outboxModule, { logger: false, abortOnError: false });
      outbox = app.get(OutboxService);
    }
    async function open(options: PoolOptions = {}): Promise<Pool> {
      const pool = createPool({ uri: database.url, ...options });
      opened.push(() => pool.end());
      await start(mysql2Layer(pool));
      return pool;
    }
    async function openCore(): Promise<CorePool> {
      const pool = createCorePool({ uri: database.url });
      opened.push(() => pool.promise().end());
      await start(mysql2Layer(pool));
      return pool;
    }
    const taken = (pool: CorePool): Promise<CoreConnection> =>
      new Promise((resolve, reject) => {
        pool.getConnection((error, connection) => (error === null ? resolve(connection) : reject(error)));
      });

    const enqueue = (tx: PoolConnection | CoreConnection, dedupKey?: string): Promise<string> =>
      outbox.enqueue({ type: 't', payload: 1, ...(dedupKey === undefined ? {} : { dedupKey }) }, { tx: tx as never });
    const insert = (id: number): string => `insert into thing values (${id})`;
    const refused = async (tx: PoolConnection): Promise<void> =>
      expect((await refusal(() => enqueue(tx))).code).toBe('TRANSACTION_REQUIRED');
    /** Until `unlock tables` no enqueue is answered. */
    const holdEnqueues = (): Promise<unknown> => beside.query('lock tables outbox_ready write');
    const list = async (sql: string): Promise<unknown[]> =>
      (await beside.query({ sql, rowsAsArray: true }))[0] as unknown[];
    const committed = async () => ({
      things: (await list('select id from thing order by id')).flat(),
      messages: (await list('select id from outbox_ready')).length,
    });
    async function begun(pool: Pool): Promise<PoolConnection> {
      const connection = await pool.getConnection();
      await connection.beginTransaction();
      return connection;
    }

    it('lets no statement that was prepared before overtake the ROLLBACK that waits for an enqueue', async () => {
      const pool = await open({ connectionLimit: 1 });
      const connection = await pool.getConnection();
      const prepared = await connection.prepare('insert into thing values (?)');
      await connection.beginTransaction();
      await holdEnqueues();
      const sent: Promise<unknown>[] = [enqueue(connection), connection.rollback()];
      connection.release();
      const next = await pool.getConnection();
      sent.push(prepared.execute([77]));
      await beside.query('unlock tables');
      await Promise.all(sent);
      next.release();
      expect(await committed()).toEqual({ things: [77], messages: 0 });
    });

    it.each<[string, PoolOptions, (connection: PoolConnection, pool: Pool) => unknown]>([
      ['reset', { resetOnRelease: true }, (connection) => connection.release()],
      ['change of user', {}, (connection) => connection.changeUser({})],
      ['end of the pool', {}, (_, pool) => pool.end()],
    ])('sends the %s behind the COMMIT that waits for an enqueue', async (_, options, after) => {
      const pool = await open(options);
      const connection = await begun(pool);
      await connection.query(insert(1));
      await holdEnqueues();
      const sent: unknown[] = [enqueue(connection), connection.commit(), after(connection, pool)];
      await beside.query('unlock tables');
      await Promise.all(sent);
      expect(await committed()).toEqual({ things: [1], messages: 1 });
    });

    it.each<[string, (connection: PoolConnection) => Promise<unknown>]>([
      ['reset', (connection) => connection.reset()],
      ['change of user', (connection) => connection.changeUser({})],
    ])('takes a %s for the end of the transaction', async (_, end) => {
      const pool = await open();
      const told: string[] = [];
      outbox.events.on('enqueued', ({ ids }) => void told.push(...ids));
      const connection = await begun(pool);
      await enqueue(connection);
      await end(connection);
      await refused(connection);
      await connection.beginTransaction();
      const kept = await enqueue(connection);
      const heard = outbox.events.once('enqueued');
      await connection.commit();
      await heard;
      expect(told).toEqual([kept]); // and nothing of the message that is gone
      expect(await committed()).toEqual({ things: [], messages: 1 });
    });

    it('prepares no statement that was forgotten before its turn', async () => {
      const connection = await begun(await open({ maxPreparedStatements: 2 }));
      await holdEnqueues();
      const sent = [enqueue(connection), ...[1, 2, 3, 4, 5].map((n) => connection.execute(`select ${n}`))];
      await beside.query('unlock tables');
      await expect(Promise.all(sent)).resolves.toHaveLength(6);
    });

    it('asks the database behind a prepared statement that commits, beside another one', async () => {
      const connection = await begun(await open());
      const prepared = await connection.prepare('truncate emptied');
      await connection.query(insert(1));
      await Promise.all([connection.query('select 1'), prepared.execute([])]);
      await refused(connection);
      expect(await committed()).toEqual({ things: [1], messages: 0 });
    });

    it('takes the connections of a pool with callbacks, and those with promises of it', async () => {
      const pool = await openCore();
      const core = await taken(pool);
      for (const promised of [core.promise(), await pool.promise().getConnection()]) {
        await promised.beginTransaction();
        await enqueue(promised);
        await promised.commit();
      }
      await core.promise().beginTransaction();
      await enqueue(core);
      await core.promise().commit();
      expect((await committed()).messages).toBe(3);
    });

    it('refuses what was handed out before, whoever has the connection now', async () => {
      const pool = await open({ connectionLimit: 1 });
      const stale = await begun(pool);
      await stale.commit();
      stale.release();
      const core = await taken(pool.pool as unknown as CorePool);
      await core.promise().beginTransaction();
      await refused(stale);
      await enqueue(core);
      await core.promise().commit();
      expect((await committed()).messages).toBe(1);
    });

    it.each([false, true])('calls back with the command as this; behind a message: %s', async (isWritten) => {
      const core = await taken(await openCore());
      await core.promise().beginTransaction();
      if (isWritten) await enqueue(core);
      for (const sql of ['select 1', 'selec']) {
        const called = await new Promise((resolve) => {
          core.query(sql, function (this: { sql?: unknown } | undefined) {
            resolve(this?.sql);
          });
        });
        expect(called).toBe(sql);
      }
    });

    it.each<[string, string, string, string]>([
      ['autocommit is off', 'set autocommit = 0', 'do 0', 'commit'],
      ['COMMIT begins the next', 'begin', 'do 0', 'commit and chain'],
      ['the session chains them', 'set completion_type = 1; begin', 'do 0', 'commit'],
      ['one text has it and more', 'do 0', 'set transaction read write; start transaction', 'commit'],
      ['it is of two phases', 'do 0', `xa start 'x'`, `xa end 'x'; xa commit 'x' one phase`],
      ['rows come behind it', 'do 0', 'begin; select 1', 'commit; select 1'],
    ])('hears of a transaction without a BEGIN of its own: %s', async (_, first, begin, end) => {
      const connection = await (await open({ multipleStatements: true })).getConnection();
      await connection.query(first);
      for (const id of [1, 2]) {
        await connection.query(begin);
        await connection.query(insert(id));
        await enqueue(connection);
        await connection.query(end);
      }
      expect(await committed()).toEqual({ things: [1, 2], messages: 2 });
    });

    const locked = (id: number): string => `update thing set id = id where id = ${id}`;
    it('rejects COMMIT behind a deadlock whose error was swallowed', async () => {
      const connection = await begun(await open());
      await beside.query('insert into thing values (1), (2)');
      await connection.query(locked(1));
      await enqueue(connection);
      await beside.query('begin');
      // The server ends the one that wrote less.
      await beside.query(`insert into thing values ${Array.from({ length: 50 }, (_, n) => `(${n + 3})`).join()}`);
      await beside.query(locked(2));
      const theirs = beside.query(locked(1));
      await expect(connection.query(locked(2))).rejects.toMatchObject({ errno: 1213 });
      await theirs;
      await beside.query('rollback');
      await expect(connection.commit()).rejects.toMatchObject({ code: 'ROLLBACK_ONLY' });
      expect(await committed()).toEqual({ things: [1, 2], messages: 0 });
      await connection.beginTransaction();
      await enqueue(connection);
      await connection.commit();
      expect((await committed()).messages).toBe(1);
    });

    it('commits nothing behind a savepoint that could not be gone back to', async () => {
      const connection = await begun(await open());
      await connection.query('savepoint a');
      await enqueue(connection);
      await connection.query('release savepoint a'); // as two at once do that have one name
      await expect(connection.query('rollback to savepoint a')).rejects.toMatchObject({ errno: 1305 });
      await expect(connection.commit()).rejects.toMatchObject({ code: 'ROLLBACK_ONLY' });
      expect((await committed()).messages).toBe(0);
    });

    it('leaves no rejection to nobody when the connection is lost', async () => {
      const pool = await openCore();
      const core = await taken(pool);
      await core.promise().beginTransaction();
      await holdEnqueues();
      const written = enqueue(core).catch(() => undefined);
      core.commit();
      core.query('select 1');
      const rejected: unknown[] = [];
      const note = (reason: unknown): void => void rejected.push(reason);
      process.on('unhandledRejection', note);
      const lost = once(core, 'end');
      await beside.query(`kill ${core.threadId}`);
      await lost;
      await written;
      for (let n = 0; n < 10; n += 1) await turn();
      process.off('unhandledRejection', note);
      expect(rejected).toEqual([]);
    });

    it.each<[string, PoolOptions]>([
      ['typeCast', { typeCast: (field) => `XX${field.string()}` }], // first: the driver keeps how it reads these columns
      ['nestTables', { nestTables: true }],
    ])('knows a dedup key again on a pool with %s', async (name, options) => {
      const connection = await begun(await open(options));
      expect(await enqueue(connection, name)).toBe(await enqueue(connection, name));
      await connection.commit();
      expect((await committed()).messages).toBe(1);
    });

    it.each([0, 1, 2, 3])('takes no column for the state of the transaction: %d', async (status) => {
      const columns = `select ${status} as serverStatus, 0 as affectedRows, 0 as fieldCount`;
      const connection = await begun(await open());
      await connection.query(columns);
      await enqueue(connection);
      await connection.rollback();
      await connection.query(columns);
      await refused(connection);
      expect((await committed()).messages).toBe(0);
    });

    it('refuses behind a COMMIT of which rows are the last answer', async () => {
      const connection = await begun(await open({ multipleStatements: true }));
      await connection.query('commit; select 1');
      await refused(connection);
      expect((await committed()).messages).toBe(0);
    });

    it('calls back with an error before the command ends, as the driver does', async () => {
      const core = await taken(await openCore());
      const order: string[] = [];
      const command = core.query('selec', () => order.push('called'));
      command.once('end', () => order.push('ended'));
      await once(command, 'end');
      expect(order).toEqual(['called', 'ended']);
    });

    it('takes another addCommand in front of its own', async () => {
      const core = (await begun(await open())).connection as unknown as { addCommand(command: object): object };
      const { addCommand } = core;
      const add = jest.fn((command: object) => addCommand.call(core, command));
      core.addCommand = add;
      await (core as unknown as CoreConnection).promise().query('select 1');
      expect(add).toHaveBeenCalledTimes(1);
    });

    it('is made of a pool only, and of none with a queryFormat', async () => {
      const code = (make: () => unknown): Promise<string> => refusal(make).then((error) => error.code);
      const formats = createPool({ uri: database.url, queryFormat: (sql: string) => sql } as PoolOptions);
      opened.push(() => formats.end());
      const [cluster, single] = [createPoolCluster(), createCoreConnection({ uri: database.url })];
      opened.push(() => single.promise().end());
      for (const given of [formats, cluster, single, beside]) {
        expect(await code(() => mysql2Layer(given as never))).toBe('UNSUPPORTED_DATABASE');
      }
    });
  });
});
