import { createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import type { SqlConnection, SqlDatabase, SqlExecutor } from '../../../lib/store/executor.js';
import type { MysqlConnection } from '../../../lib/data-layers/drivers/mysql-connection.js';
import { openMysqlDatabase } from '../../../lib/data-layers/typeorm/mysql.js';
import { parkedStatements } from '../../../lib/store/mysql/parked/statements.js';
import { tableNames } from '../../../lib/store/names.js';
import { statement } from '../../../lib/store/sql.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { until as eventually } from '../../support/postgres-store.js';
import { describeOnMysqlFamily } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

const sql = (text: string, ...values: unknown[]) => statement(undefined, text).bind(...values);
const one = async (connection: SqlConnection, text: string, ...values: unknown[]) =>
  (await connection.run(sql(text, ...values))).rows[0]?.[0];

describeOnMysqlFamily('connections of the store', (kind) => {
  const stores = new MariaDbStores(kind, { statementTimeout: 60_000 });
  let database: SqlDatabase;

  beforeAll(() => stores.start());
  afterAll(() => stores.stop());
  beforeEach(() => {
    database = openMysqlDatabase(stores.application, stores.storeSettings);
  });
  afterEach(() => database.close());

  it('has its own session: committed reads, UTC, strict, with timeouts', async () => {
    const [isolation, limit, most] =
      kind === 'mariadb'
        ? ['tx_isolation', 'max_statement_time', '60']
        : ['transaction_isolation', 'max_execution_time', '60000'];
    const { rows } = await database
      .connection('read')
      .run(
        sql(
          `select @@${isolation}, @@time_zone, @@sql_mode, @@${limit}, @@innodb_lock_wait_timeout, @@character_set_client, @@autocommit`,
        ),
      );
    expect(rows[0]?.map(String)).toEqual([
      'READ-COMMITTED',
      '+00:00',
      'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
      most,
      '2', // for a lock
      'utf8mb4',
      '1',
    ]);
    expect(await one(database.connection('read'), 'select ?', 2n ** 64n - 1n)).toBe('18446744073709551615');
    expect(await one(database.connection('read'), 'select ?', Buffer.from([0, 39, 92, 255]))).toEqual(
      Buffer.from([0, 39, 92, 255]),
    );
  });

  it('B10: the server ends a transaction that idles, and no session without one', async () => {
    const connection = database.connection('lease');
    const limits = `@@autocommit, @@${kind === 'mariadb' ? 'idle_transaction_timeout' : 'wait_timeout'}`;
    const now = async (executor: SqlExecutor): Promise<string[]> =>
      ((await executor.run(sql(`select ${limits}, @@wait_timeout`))).rows[0] ?? []).map(String);
    const outside = kind === 'mariadb' ? ['1', '60', '2147483'] : ['1', '2147483', '2147483'];
    const inside = kind === 'mariadb' ? outside : ['0', '60', '60'];
    expect(await now(connection)).toEqual(outside);
    await stores.application.query('create table bounded (n int)');
    await connection.transaction(async (tx) => {
      await tx.run(sql('insert into bounded values (1)'));
      expect(await now(tx)).toEqual(inside);
    });
    expect(await now(connection)).toEqual(outside);
    const failed = connection.transaction(async (tx) => {
      await tx.run(sql('insert into bounded values (2)'));
      await tx.run(sql('insert into nowhere values (2)'));
    });
    await expect(failed).rejects.toThrow('nowhere');
    expect([await now(connection), connection.generation]).toEqual([outside, 0]);
    expect(await stores.application.query('select n from bounded')).toEqual([{ n: 1 }]);
    await stores.application.query('drop table bounded');
  });

  it('E2: the deadline of a lost statement ends no later connection', async () => {
    const patient = openMysqlDatabase(stores.application, { ...stores.storeSettings, statementTimeout: 3_600_000 });
    const connection = patient.connection('settle') as MysqlConnection;
    const id = String(await one(connection, 'select connection_id()'));
    const { timeout } = connection;
    const short = 3_000;
    Object.assign(connection, { timeout: short }); // of this statement alone
    const asleep = connection.run(sql('select sleep(3000)')).catch(() => undefined); // under way, or lost before that
    await stores.application.query(`kill ${id}`);
    await asleep;
    Object.assign(connection, { timeout });
    const from = performance.now();
    const next = await eventually('reconnect', () => one(connection, 'select connection_id()').catch(() => undefined));
    await eventually('its deadline is over', async () => {
      expect(await one(connection, 'select connection_id()')).toBe(next);
      return performance.now() - from > short + 500 || undefined;
    });
    await patient.close();
  });

  describe('behind a network that fails', () => {
    let proxy: TcpProxy;
    let through: DataSource;
    let behind: SqlDatabase;
    beforeEach(async () => {
      proxy = await TcpProxy.start(stores.database.url);
      const url = new URL(stores.database.url);
      url.host = `${proxy.host}:${proxy.port}`;
      through = await new DataSource({ ...stores.application.options, url: url.href } as never).initialize();
      behind = openMysqlDatabase(through, { ...stores.storeSettings, statementTimeout: 3_600_000 });
    });
    afterEach(async () => {
      await behind.close();
      await through.destroy();
      await proxy.close();
    });
    /** Long before a statement's timeout, and the connection serves again. */
    const givenUp = async (connection: SqlConnection, asked: Promise<unknown>) => {
      await expect(asked).rejects.toMatchObject({ code: 'PROTOCOL_CONNECTION_LOST' });
      expect(String(await eventually('another', () => one(connection, 'select 3').catch(() => undefined)))).toBe('3');
    };

    it('E2: a connection that is given up while it opens fails who waits for it, at once', async () => {
      const connection = behind.connection('lease') as MysqlConnection;
      proxy.set({ delay: 100 });
      const asked = connection.run(sql('select 1'));
      asked.catch(() => undefined);
      await eventually('it opens', async () => proxy.open > 1 || undefined);
      await connection.drop();
      await givenUp(connection, asked);
    });

    it('E2: a commit whose connection ends is given up at once, and no rollback waits behind it', async () => {
      const connection = behind.connection('settle');
      const asked = connection.transaction(async (tx) => {
        await tx.run(sql('select 1'));
        proxy.set({ up: 'hold' });
      });
      asked.catch(() => undefined);
      await eventually('the commit is on its way', async () => proxy.heldUp > 0 || undefined);
      proxy.cut('fin');
      proxy.heal();
      await givenUp(connection, asked);
    });
  });

  it('names the columns of a statement alike whatever it is asked: the driver keeps a parser for each set of names', async () => {
    const { earliest } = parkedStatements(tableNames(stores.storeSettings, '`'), 0);
    const client = await createConnection({ uri: stores.database.url });
    const names = async (...places: number[]) => {
      const { statement: asked, values } = earliest(places.length / 2).bind(...places);
      const [, fields] = await client.query({ sql: asked.questionMarks, values: [...values], rowsAsArray: true });
      return fields.map(({ name }) => name);
    };
    try {
      expect(await names(0, 3, 0, 7)).toEqual(await names(1, 4, 1, 31));
    } finally {
      await client.end();
    }
  });

  it('uses the primary of a replicated application, and no replica', async () => {
    const application = new DataSource({
      type: 'mariadb',
      replication: {
        master: { url: stores.database.url },
        slaves: [{ host: '127.0.0.1', port: 1, username: 'nobody' }],
      },
    });
    const own = openMysqlDatabase(application, stores.storeSettings);
    try {
      for (const role of ['read', 'settle', 'lease', 'admin'] as const) {
        expect(await one(own.connection(role), 'select database()')).toBe(stores.storeSettings.schema);
      }
    } finally {
      await own.close();
    }
  });
});
