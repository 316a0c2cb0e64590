import { DataSource, type DataSourceOptions } from 'typeorm';
import { openMysqlDatabase } from '../../../lib/data-layers/typeorm/mysql.js';
import { openPostgresDatabase } from '../../../lib/data-layers/typeorm/postgres.js';
import type { SqlConnection, SqlDatabase } from '../../../lib/store/executor.js';
import { statement } from '../../../lib/store/sql.js';
import { HOSTILE } from '../../support/hostile-options.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { DATABASES, describeWith } from '../../support/services.js';
import { until as eventually } from '../../support/postgres-store.js';

const sql = (text: string, ...values: unknown[]) => statement(undefined, text).bind(...values);
const one = async (connection: SqlConnection, text: string) => String((await connection.run(sql(text))).rows[0]?.[0]);

/** A billion rows, counted one by one: `sleep()` of MySQL is not cancelled, it ends early. */
const LONG = {
  postgres: 'select pg_sleep(3000)',
  mariadb: 'select count(*) from seq_1_to_1000000000 where seq % 7 = sqrt(seq)',
  mysql: `select count(*) from information_schema.columns a, information_schema.columns b, information_schema.columns c`,
};
const POSTGRES = {
  session: 'select pg_backend_pid()',
  sleep: LONG.postgres,
  asleep: (id: string) =>
    `select 1 from pg_stat_activity where pid = ${id} and state = 'active' and query like '%pg_sleep%'`,
  end: (id: string) => `select pg_terminate_backend(${id})`,
  sessions: 'select count(*) as n from pg_stat_activity where datname = current_database()',
  limit: `set statement_timeout = '1s'`,
  cancelled: { code: '57014' },
  taken: { code: '23505' },
};
const MYSQL = {
  session: 'select connection_id()',
  sleep: 'select sleep(3000)',
  asleep: (id: string) => `select 1 from information_schema.processlist where id = ${id} and state = 'User sleep'`,
  end: (id: string) => `kill ${id}`,
  sessions: 'select count(*) as n from information_schema.processlist where db = database()',
  taken: { errno: 1062 },
};
const SQL = {
  postgres: POSTGRES,
  mariadb: { ...MYSQL, limit: 'set session max_statement_time = 1', cancelled: { errno: 1969 } },
  mysql: { ...MYSQL, limit: 'set session max_execution_time = 1000', cancelled: { errno: 3024 } },
};

describe.each(DATABASES)('connections of the store on %s', (kind) => {
  describeWith(kind, kind, () => {
    const { session, sleep, asleep, end, sessions, limit, cancelled, taken } = SQL[kind];
    let harness: Harness;
    let database: SqlDatabase;
    const open = (application: DataSource): SqlDatabase => {
      const { buckets, ordering, coordination, onPublished, database: of } = harness.options;
      // With limits that no test comes to.
      const limits = { statementTimeout: 3_600_000, idleWithLocks: 30_000, connectTimeout: 60_000 };
      const schema = kind === 'postgres' ? 'public' : new URL(harness.database.url).pathname.slice(1);
      const settings = { ...of, ...limits, schema, buckets, ordering, coordination, onPublished, errorHistory: 2 };
      return kind === 'postgres'
        ? openPostgresDatabase(application, settings)
        : openMysqlDatabase(application, settings);
    };
    const query = (text: string) => harness.dataSource.query(text);
    const count = async (): Promise<number> => Number((await query(sessions))[0].n);
    /** The first statement may still meet the dying connection. */
    const again = (connection: SqlConnection) =>
      eventually('another session', () => one(connection, session).catch(() => undefined));
    /** A statement on its way, and the session that runs it. */
    const sleeping = async (connection: SqlConnection) => {
      const id = await one(connection, session);
      const outcome = connection.run(sql(sleep)).then(
        () => 'slept',
        (error: Error) => error,
      );
      await eventually('asleep', async () => (await query(asleep(id))).length > 0);
      return { id, outcome };
    };

    beforeAll(async () => {
      harness = await createHarness(kind);
    });
    beforeEach(() => {
      database = open(harness.dataSource);
    });
    afterEach(() => database.close());
    afterAll(() => harness.close());

    it('open a new session after the server ended theirs, count it, and leave none behind', async () => {
      const connection = database.connection('read');
      const first = await one(connection, session);
      const before = await count();
      expect(connection.generation).toBe(0);
      for (let round = 1; round <= 6; round += 1) {
        await query(end(await one(connection, session)));
        expect(await again(connection)).not.toBe(first);
        expect(connection.generation).toBe(round);
      }
      await eventually('only the living one is left', async () => (await count()) <= before);
    });

    it('fail a statement whose session is ended under it, at once', async () => {
      const connection = database.connection('settle');
      const { id, outcome } = await sleeping(connection);
      await query(end(id));
      expect(await outcome).toBeInstanceOf(Error);
      expect(await again(connection)).not.toBe(id);
    });

    it('keep their session when the server cancels what takes too long', async () => {
      const connection = database.connection('admin');
      const id = await one(connection, session);
      await connection.run(sql(limit)); // the client's is long: the server may say so late
      await expect(connection.run(sql(LONG[kind]))).rejects.toMatchObject(cancelled);
      expect(await again(connection)).toBe(id);
    });

    it('take back a transaction that fails, and nothing of what is asked beside it', async () => {
      const connection = database.connection('settle');
      await connection.run(sql('create temporary table t (a int primary key)'));
      const failing = connection.transaction(async (tx) => {
        await tx.run(sql('insert into t values (1)'));
        await tx.run(sql('insert into t values (1)'));
      });
      const behind = connection.run(sql('insert into t values (2)'));
      await expect(failing).rejects.toMatchObject(taken);
      await behind;
      expect(await one(connection, 'select sum(a) from t')).toBe('2');
    });

    it('end what is in flight when they are closed, and take nothing after that', async () => {
      const { outcome } = await sleeping(database.connection('read'));
      await one(database.connection('lease'), 'select 1');
      await database.close();
      expect(await outcome).toBeInstanceOf(Error);
      await expect(database.connection('read').run(sql('select 1'))).rejects.toThrow('closed');
    });

    it('show no value of a statement in its error', async () => {
      const failure: unknown = await database
        .connection('read')
        .run(sql('select ? from nowhere', 'secret'))
        .catch((error: unknown) => error);
      expect(JSON.stringify(failure, Object.getOwnPropertyNames(failure))).not.toContain('secret');
    });

    it('leave alone what the application has, whatever its options would do to a second connection', async () => {
      await query('create table mine (a int)');
      const extra = kind === 'postgres' ? {} : { extra: { multipleStatements: true } };
      const options = { ...harness.database.options, ...HOSTILE, ...extra } as DataSourceOptions;
      const own = open(new DataSource(options)); // the application itself is not connected here
      try {
        const tables = `select count(*) from information_schema.tables where table_name in ('mine', 'thing')
          and table_schema = ${kind === 'postgres' ? "'public'" : 'database()'}`;
        expect(await one(own.connection('read'), tables)).toBe('1');
        if (kind !== 'postgres')
          await expect(own.connection('read').run(sql('select 1; select 2'))).rejects.toMatchObject({ errno: 1064 });
      } finally {
        await own.close();
      }
    });
  });
});
