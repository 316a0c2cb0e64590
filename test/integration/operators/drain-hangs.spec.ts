import type { TestingModule } from '@nestjs/testing';
import { DataSource, type QueryRunner } from 'typeorm';
import { OutboxAdmin, OutboxModule, OutboxService } from '../../../lib/index.js';
import { Applications, build, quiet, typeOrm, until } from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'a wait for the end, while a table is locked', () => {
  let database: TestDatabase;
  let app: TestingModule;
  let admin: OutboxAdmin;
  let holder: QueryRunner;
  const applications = new Applications();
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  const nothing = { isExact: false, transports: [], reasons: [], openTransactions: null };

  beforeAll(async () => {
    process.on('unhandledRejection', note);
    database = await createTestDatabase('postgres');
    app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: false }))]));
    admin = app.get(OutboxAdmin);
    await app.get(OutboxService).enqueueOutsideTransaction({ type: 'a', topic: 'a', payload: 1 } as never, {});
    holder = app.get(DataSource).createQueryRunner();
  });
  beforeEach(() => holder.startTransaction());
  afterEach(async () => {
    // What hangs fails while nobody waits for it any more.
    await holder.query(`select pg_terminate_backend(pid) from (${WAITING}) waiting`);
    await until(async () => (await waiting()).length === 0);
    await holder.rollbackTransaction();
    expect(unhandled).toEqual([]);
  });
  afterAll(async () => {
    process.off('unhandledRejection', note);
    await holder?.release();
    await applications.close();
    await database?.drop();
  });

  const WAITING = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  const waiting = (): Promise<unknown[]> => holder.query(WAITING);
  const lock = (table: string): Promise<unknown> => holder.query(`lock table ${table} in access exclusive mode`);

  it.each(['outbox_transports', 'outbox_parked'])('ends with its time, %s', async (table) => {
    await lock(table);
    expect(await admin.drain({ timeout: '1s' })).toMatchObject({ outcome: 'timeout', left: 0, ...nothing });
    expect(await waiting()).toHaveLength(1);
  });

  it('ends with its signal, and says what the look before saw', async () => {
    const abort = new AbortController();
    let locked: Promise<unknown> | undefined;
    const report = admin.drain({
      signal: abort.signal,
      progress: () =>
        void (locked ??= lock('outbox_parked')
          .then(() => until(async () => (await waiting()).length > 0))
          .then(() => abort.abort())),
    });
    expect(await report).toMatchObject({ outcome: 'aborted', left: 1, ...nothing });
    expect(await waiting()).toHaveLength(1);
    await locked;
  });

  it('what is asked for the report has its time, too', async () => {
    let locked: Promise<unknown> | undefined;
    const { inspect } = admin.actions;
    const look = inspect.buckets.bind(inspect);
    inspect.buckets = async (...asked) => {
      const ready = await look(...asked);
      await (locked ??= lock('outbox_leases'));
      return ready;
    };
    const report = await admin.drain({ timeout: 0 });
    expect(report).toMatchObject({ outcome: 'timeout', left: 1, ...nothing, isExact: true });
    expect(await waiting()).toHaveLength(1);
  });
});
