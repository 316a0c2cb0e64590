import { createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import type { SqlConnection, SqlDatabase, SqlExecutor } from '../../../lib/store/executor.js';
import type { MysqlConnection } from '../../../lib/data-layers/typeorm/mysql-connection.js';
import { openMysqlDatabase } from '../../../lib/data-layers/typeorm/mysql.js';
import { parkedStatements } from '../../../lib/store/mysql/parked/statements.js';
import { tableNames } from '../../../lib/store/names.js';
import { statement } from '../../../lib/store/sql.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { until as eventually } from '../../support/postgres-store.js';
import { HOSTILE } from '../../support/hostile-options.js';
import { describeOnMysqlFamily } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

const sql = (text: string, ...values: unknown[]) => statement(undefined, text).bind(...values);
/** A billion rows, counted one by one. */
const LONG = {
  mariadb: 'select count(*) from seq_1_to_1000000000 where seq % 7 = sqrt(seq)',
  mysql: `select count(*) from information_schema.columns a, information_schema.columns b, information_schema.columns c`,
};
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

  const kill = async (connection: SqlConnection) =>
    stores.application.query(`kill ${String(await one(connection, 'select connection_id()'))}`);
  const openSessions = async () =>
    Number(
      (await stores.application.query('select count(*) n from information_schema.processlist where db = database()'))[0]
        .n,
    );

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

  it('opens a new connection after a kill, and says so', async () => {
    const connection = database.connection('read');
    const before = await openSessions();
    expect([Number(await one(connection, 'select 1')), connection.generation]).toEqual([1, 0]);
    for (let round = 1; round <= 6; round++) {
      await kill(connection);
      // The first statement may still meet the dying connection.
      expect(String(await eventually('reconnect', () => one(connection, 'select 1').catch(() => undefined)))).toBe('1');
      expect(connection.generation).toBe(round);
    }
    await eventually('only the living one is left', async () =>
      (await openSessions()) <= before + 2 ? true : undefined,
    );
  });

  /** With limits that no test comes to. */
  const withPatience = async (work: (patient: SqlDatabase) => Promise<void>): Promise<void> => {
    const patient = openMysqlDatabase(stores.application, { ...stores.storeSettings, statementTimeout: 3_600_000 });
    await work(patient).finally(() => patient.close());
  };

  /** A statement on its way, and the session that runs it. */
  const sleeping = async (connection: SqlConnection) => {
    const id = await one(connection, 'select connection_id()');
    const asleep = connection.run(sql('select sleep(3000)')).then(
      () => 'slept',
      (error: Error) => error,
    );
    await eventually(
      'asleep',
      async () =>
        (
          await stores.application.query(
            `select 1 from information_schema.processlist where id = ${String(id)} and state = 'User sleep'`,
          )
        ).length > 0 || undefined,
    );
    return { id: String(id), asleep };
  };

  it('fails a statement whose connection is killed under it, at once', () =>
    withPatience(async (patient) => {
      const connection = patient.connection('settle');
      const { id, asleep } = await sleeping(connection);
      await stores.application.query(`kill ${id}`);
      expect(await asleep).toBeInstanceOf(Error);
      expect(String(await eventually('reconnect', () => one(connection, 'select 2').catch(() => undefined)))).toBe('2');
    }));

  it('E2: the deadline of a lost statement ends no later connection', () =>
    withPatience(async (patient) => {
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
      const next = await eventually('reconnect', () =>
        one(connection, 'select connection_id()').catch(() => undefined),
      );
      await eventually('its deadline is over', async () => {
        expect(await one(connection, 'select connection_id()')).toBe(next);
        return performance.now() - from > short + 500 || undefined;
      });
    }));

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

  it('lets the server cancel what takes too long, and keeps the connection', () =>
    withPatience(async (patient) => {
      const connection = patient.connection('admin');
      const id = await one(connection, 'select connection_id()');
      const limit = kind === 'mariadb' ? 'max_statement_time = 1' : 'max_execution_time = 1000';
      await connection.run(sql(`set session ${limit}`)); // the client's is long: the server may say so late
      await expect(connection.run(sql(LONG[kind]))).rejects.toMatchObject({ errno: kind === 'mariadb' ? 1969 : 3024 });
      const next = await eventually('an answer', () =>
        one(connection, 'select connection_id()').catch(() => undefined),
      );
      expect(next).toBe(id);
    }));

  it('settles what is in flight when it closes', () =>
    withPatience(async (patient) => {
      const asleep = patient
        .connection('read')
        .run(sql('select sleep(3000)'))
        .then(
          () => 'slept',
          () => 'failed',
        );
      await one(patient.connection('lease'), 'select 1');
      await patient.close();
      expect(await asleep).toBe('failed');
      await expect(patient.connection('read').run(sql('select 1'))).rejects.toThrow('closed');
    }));

  it('keeps transactions apart from the statements around them', async () => {
    const connection = database.connection('settle');
    await connection.run(sql('create temporary table t (a int primary key) engine = InnoDB'));
    const failing = connection.transaction(async (tx) => {
      await tx.run(sql('insert into t values (1)'));
      await tx.run(sql('insert into t values (1)'));
    });
    const behind = connection.run(sql('insert into t values (2)'));
    await expect(failing).rejects.toMatchObject({ errno: 1062 });
    await behind;
    expect((await connection.run(sql('select a from t'))).rows).toEqual([[2]]);
  });

  it('never shows the values of a statement in its error', async () => {
    const failure: unknown = await database
      .connection('read')
      .run(sql('select ? from nowhere', 'secret'))
      .catch((error: unknown) => error);
    expect(JSON.stringify(failure, Object.getOwnPropertyNames(failure))).not.toContain('secret');
  });

  it('leaves the tables of an application that drops and synchronizes its own schema alone', async () => {
    await stores.application.query('create table mine (a int)');
    const application = new DataSource({
      ...stores.database.options,
      ...HOSTILE,
      extra: { connectionLimit: 2, multipleStatements: true },
    } as never);
    const own = openMysqlDatabase(application, stores.storeSettings); // the application itself is not connected here
    try {
      expect(
        await one(
          own.connection('read'),
          `select group_concat(table_name) from information_schema.tables
           where table_name in ('mine', 'thing') and table_schema = database()`,
        ),
      ).toBe('mine');
      await expect(own.connection('read').run(sql('select 1; select 2'))).rejects.toMatchObject({ errno: 1064 });
    } finally {
      await own.close();
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
