import { DataSource, QueryFailedError, type QueryRunner } from 'typeorm';
import { openPostgresDatabase } from '../../../lib/data-layers/typeorm/postgres.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { DURABLE } from '../../../lib/store/postgres/ready/statements.js';
import { statement } from '../../../lib/store/sql.js';
import { describeWith } from '../../support/services.js';
import { DATABASE, PostgresFixture, SETTINGS, until } from '../../support/postgres-store.js';

const one = (text: string) => statement(undefined, text).bind();

describeWith('postgres', 'PostgreSQL executors', () => {
  const fixture = new PostgresFixture();
  beforeAll(() => fixture.start());
  afterAll(() => fixture.stop());
  const open = (fields: object = {}) =>
    openPostgresDatabase(fixture.application, {
      ...SETTINGS,
      ...DATABASE,
      onPublished: 'delete',
      statementTimeout: 5_000,
      idleWithLocks: 30_000,
      connectTimeout: 5_000,
      ...fields,
    });
  const sessions = async (): Promise<number> =>
    (
      await fixture.application.query(
        `select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'nestjs-outbox'`,
      )
    )[0].n as number;

  it('gives each role its session, and closes all of them', async () => {
    const database = open();
    const setting = async (role: 'read' | 'settle' | 'admin' | 'lease', name: string) =>
      (await database.connection(role).run(one(`select current_setting('${name}')`))).rows[0]?.[0];
    expect(await setting('settle', 'synchronous_commit')).toBe('off');
    expect(await setting('admin', 'synchronous_commit')).toBe('on');
    expect(await setting('read', 'enable_seqscan')).toBe('off');
    expect(await setting('read', 'timezone')).toBe('UTC');
    expect(await setting('admin', 'statement_timeout')).toBe('5s');
    expect(await setting('lease', 'synchronous_commit')).toBe('on');
    expect(await sessions()).toBe(4);
    await database.close();
    await until('no session left', async () => (await sessions()) === 0);
    await expect(database.connection('read').run(one('select 1'))).rejects.toThrow('closed');
  });

  it('settles durably when what is published is kept', async () => {
    const database = open({ onPublished: 'archive' });
    const { rows } = await database.connection('settle').run(one(`select current_setting('synchronous_commit')`));
    expect(rows).toEqual([['on']]);
    await database.close();
  });

  it('puts on disk what must last, on the connection whose other commits do not wait', async () => {
    const database = open();
    const connection = database.connection('settle');
    const flushed = async (text: string): Promise<boolean> => {
      const { rows } = await connection.run(one(text));
      const check = await connection.run(
        statement(undefined, 'select pg_current_wal_flush_lsn() >= ?::pg_lsn').bind(rows[0]?.[0]),
      );
      return check.rows[0]?.[0] === 't';
    };
    const outcomes = { lasting: new Set<boolean>(), other: new Set<boolean>() };
    const emit = `pg_logical_emit_message(true, 'outbox', '')`;
    // Somebody else's commit may bring ours to disk as well.
    for (let round = 0; round < 30 || (!outcomes.other.has(false) && round < 3_000); round++) {
      outcomes.other.add(await flushed(`select ${emit}`));
      outcomes.lasting.add(await flushed(`select ${emit}, ${DURABLE}`));
    }
    expect(outcomes.lasting).toEqual(new Set([true]));
    expect(outcomes.other).toContain(false);
    await database.close();
  });

  describe('in the caller’s transaction', () => {
    const greet = statement('greeting', `select 'hello', ?::int`);
    const prepared = async (runner: QueryRunner): Promise<string[]> =>
      ((await runner.query('select name from pg_prepared_statements')) as { name: string }[]).map(({ name }) => name);
    const inTransaction = async <T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> => {
      const application = await new DataSource(fixture.database.options).initialize();
      const runner = application.createQueryRunner();
      try {
        await runner.startTransaction();
        return await work(runner);
      } finally {
        await runner.release();
        await application.destroy();
      }
    };

    it('prepares named statements, once per connection', () =>
      inTransaction(async (runner) => {
        for (const n of [1, 2]) {
          expect((await transactionExecutor(runner).run(greet.bind(n))).rows).toEqual([['hello', String(n)]]);
        }
        expect(await prepared(runner)).toEqual(['greeting']);
      }));

    it('prepares nothing behind a pooler, which hands out process ids of its own', () =>
      inTransaction(async (runner) => {
        Object.assign((await runner.connect()) as object, { processID: 12 });
        expect((await transactionExecutor(runner).run(greet.bind(1))).rows).toEqual([['hello', '1']]);
        expect(await prepared(runner)).toEqual([]);
      }));

    it.each([
      ['somebody deallocated what was prepared', true, 'deallocate all'],
      ['somebody took the name, as in a session that a pooler hands on', false, 'prepare greeting as select 1'],
    ])('goes on without, after %s', (_, isPrepared, sql) =>
      inTransaction(async (runner) => {
        if (isPrepared) await transactionExecutor(runner).run(greet.bind(1));
        await runner.query(sql);
        await expect(transactionExecutor(runner).run(greet.bind(1))).rejects.toThrow(QueryFailedError);
        await runner.rollbackTransaction();
        await runner.startTransaction();
        expect((await transactionExecutor(runner).run(greet.bind(2))).rows).toEqual([['hello', '2']]);
      }),
    );
  });
});
