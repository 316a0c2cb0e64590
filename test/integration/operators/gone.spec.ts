// @tier fast
import { randomUUID } from 'node:crypto';
import type { OutboxStore } from '../../../lib/index.js';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import { uuidV7 } from '../../../lib/message/uuid-v7.js';
import type { ConnectionRole, SqlConnection, SqlDatabase, SqlExecutor } from '../../../lib/store/executor.js';
import { openPostgresDatabase } from '../../../lib/data-layers/typeorm/postgres.js';
import type { TransportStats } from '../../../lib/store/admin-store.js';
import { PostgresStore } from '../../../lib/store/postgres/store.js';
import { statement, type Sql } from '../../../lib/store/sql.js';
import { series } from '../../support/databases.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { operatorOf } from '../../support/operator.js';
import { DATABASE, PostgresFixture, SETTINGS } from '../../support/postgres-store.js';
import { describeWith, describeOnMysqlFamily } from '../../support/services.js';

const ROWS = 20_000;
const KEY = 'cart-7';
const BUCKET = bucketOf(KEY, SETTINGS.buckets);
/** What a call may read: the rows of one bucket at most three times (to cancel, to explain, the end of a page), and some of the rest. */
const FEW = 4 * (ROWS / SETTINGS.buckets) + 500;

/** Scheduled, and dead; and when. */
const PARKED = [
  [1, 'due_at'],
  [4, 'died_at'],
] as const;

/** @param reads rows of all tables that the call reads */
async function expectFewReads(
  store: OutboxStore,
  ready: string,
  reads: (call: () => Promise<unknown>) => Promise<number>,
): Promise<void> {
  const gone = uuidV7();
  for (const how of ['cancel', 'discard', 'requeue'] as const) {
    let report;
    const read = await reads(async () => (report = await operatorOf(store)[how]({ ids: [gone, ready], key: KEY })));
    expect(report).toEqual({ done: 0, changed: [], tooLate: [ready], notFound: [gone] });
    expect(read).toBeLessThan(FEW);
  }
  // Of another key, a message of this id could be anywhere.
  expect(await reads(() => operatorOf(store).cancel({ ids: [gone] }))).toBeGreaterThan(ROWS / 2);
}

/** What health asks: each part of it reads so many rows, whatever waits, is scheduled or dead. */
async function expectFewReadsOfHealth(
  store: OutboxStore,
  reads: (call: () => Promise<unknown>) => Promise<number>,
): Promise<void> {
  const buckets = Array.from({ length: SETTINGS.buckets }, (_, bucket) => bucket);
  let stats: readonly TransportStats[] = [];
  const look = { buckets, after: () => '0' };
  const read = await reads(async () => (stats = await store.admin.stats({ limit: 64, within: 60_000, look })));
  expect(stats.map(({ heads, atLeast }) => [heads.length, atLeast])).toEqual([
    [SETTINGS.buckets, expect.arrayContaining(['scheduled', 'dead'])],
  ]);
  expect(read).toBeLessThan(ROWS / 10);
}

async function lease(store: OutboxStore): Promise<void> {
  await store.leases.acquire({ owner: randomUUID(), transport: 0, leaseMs: 3_600_000, limit: SETTINGS.buckets });
}

/** Tells how many rows the statements of a connection read, by PostgreSQL's own count of a transaction. */
class CountingDatabase implements SqlDatabase {
  rows = 0;
  /** @internal */ readonly count = statement(
    undefined,
    `select sum(pg_stat_get_xact_tuples_returned(c.oid)) from pg_class c
     where c.relname in ('outbox_ready', 'outbox_parked', 'outbox_ready_pkey')`, // from an index, a row counts twice
  );

  constructor(readonly real: SqlDatabase) {}

  /** @internal Of the transaction, and of those before it that the session has not told of yet. */
  async read(tx: SqlExecutor): Promise<number> {
    return Number((await tx.run(this.count.bind())).rows[0]?.[0]);
  }

  connection(role: ConnectionRole): SqlConnection {
    const { real } = this;
    const transaction: SqlConnection['transaction'] = (work) =>
      real.connection(role).transaction(async (tx, ended) => {
        const before = await this.read(tx);
        const result = await work(tx, ended);
        this.rows += (await this.read(tx)) - before;
        return result;
      });
    return {
      get generation() {
        return real.connection(role).generation;
      },
      run: (sql: Sql) => transaction((tx: SqlExecutor) => tx.run(sql)),
      transaction,
    } as SqlConnection;
  }
  close(): Promise<void> {
    return this.real.close();
  }
}

describeWith('postgres', 'PostgreSQL operators and a message that is gone', () => {
  it('U3: read one bucket of what is ready when they name its key', async () => {
    const fixture = await new PostgresFixture().start();
    const settings = { ...SETTINGS, ...DATABASE, schema: 'public', onPublished: 'delete', statementTimeout: 60_000 };
    const database = new CountingDatabase(
      openPostgresDatabase(fixture.application, {
        ...settings,
        idleWithLocks: 30_000,
        connectTimeout: 60_000,
      } as never),
    );
    const store = new PostgresStore(database as SqlDatabase, settings as never);
    try {
      await store.setup.create(SETTINGS);
      await store.setup.transports(['default'], 'default');
      await lease(store);
      await fixture.application.query(
        `insert into outbox_ready (bucket, id, topic, key, type)
         select g % ${SETTINGS.buckets}, gen_random_uuid(), 't', 'k' || g, 't' from generate_series(1, ${ROWS}) g`,
      );
      const ready = uuidV7();
      await fixture.application.query(
        `insert into outbox_ready (bucket, id, topic, key, type) values (${BUCKET}, '${ready}', 't', '${KEY}', 't')`,
      );
      const reads = async (call: () => Promise<unknown>): Promise<number> => {
        database.rows = 0;
        await call();
        return database.rows;
      };
      await expectFewReads(store, ready, reads);
      for (const [state, column] of PARKED)
        await fixture.application.query(
          `insert into outbox_parked (bucket, state, id, topic, type, ${column})
           select g % ${SETTINGS.buckets}, ${state}, gen_random_uuid(), 't', 't', now() from generate_series(1, ${ROWS}) g`,
        );
      await expectFewReadsOfHealth(store, reads);
    } finally {
      await store.close();
      await fixture.stop();
    }
  });
});

describeOnMysqlFamily('operators and a message that is gone', (kind) => {
  it('U3: read one bucket of what is ready when they name its key', async () => {
    const stores = new MariaDbStores(kind, { buckets: SETTINGS.buckets });
    await stores.start();
    const store = stores.open();
    try {
      await store.setup.transports(['default'], 'default');
      await lease(store);
      const columns = '(id, topic, `key`, type)';
      await stores.application.query(
        `insert into outbox_ready ${columns} select uuid(), 't', concat('k', seq), 't' from ${series(kind, ROWS)}`,
      );
      const ready = uuidV7();
      await stores.application.query(`insert into outbox_ready ${columns} values (?, 't', ?, 't')`, [ready, KEY]);
      const handlers = statement(undefined, `show session status like 'Handler_read%'`);
      const total = async (): Promise<number> =>
        (await store.database.connection('admin').run(handlers.bind())).rows.reduce(
          (sum, [, count]) => sum + Number(count),
          0,
        );
      const reads = async (call: () => Promise<unknown>): Promise<number> => {
        const before = await total();
        await call();
        return (await total()) - before;
      };
      await expectFewReads(store, ready, reads);
      for (const [state, column] of PARKED)
        await stores.application.query(
          `insert into outbox_parked (id, topic, type, state, ${column})
           select uuid(), 't', 't', ${state}, utc_timestamp(6) from ${series(kind, ROWS)}`,
        );
      await expectFewReadsOfHealth(store, reads);
    } finally {
      await store.close();
      await stores.stop();
    }
  });
});
