import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { DataSource, type DataSourceOptions, type EntityManager } from 'typeorm';
import type { OutboxStore } from '../lib/index.js';
import { transactionExecutor } from '../lib/data-layers/typeorm/transaction.js';
import { newMessage } from '../test/support/relay.js';
import { APPLICATION } from './support/app.js';
import { startMariadb } from './support/mariadb.js';
import { argument, Samples, timed } from './support/measure.js';
import { adminClient, SLOW_FLUSH, startPostgres } from './support/postgres.js';
import { benchRelay, NoopTransport } from './support/relay.js';
import { PAYLOAD } from './support/rows.js';
import { bench, type Closing } from './support/run.js';
import { cpuOfBackends, cpuOfProcess } from './support/server-cpu.js';

/**
 * What `ordering: 'strict'` costs the business transaction (enqueue, UPDATE of a row of its own, COMMIT), against
 * `ordering: 'key'`: 16 writers, one message and ten, keys that hardly meet and five hot ones, and hot ones with 5 ms of
 * work between enqueue and commit. On PostgreSQL (a flush takes 0.8 ms) and on MariaDB.
 *   npm run bench -- strict [transactions=10000] [repeats=5]
 */
const transactions = argument(0, 'transactions', 10_000);
const repeats = argument(1, 'repeats', 5);
const WRITERS = 16;
const BUCKETS = 32;
const BYTES = Buffer.from(PAYLOAD);

interface Case {
  readonly name: string;
  readonly messages: number;
  readonly keys: number;
  /** Milliseconds between enqueue and commit. */
  readonly work: number;
}
const CASES: readonly Case[] = [
  { name: 'one', messages: 1, keys: 100_000, work: 0 },
  { name: 'ten', messages: 10, keys: 100_000, work: 0 },
  { name: 'oneHot', messages: 1, keys: 5, work: 0 },
  { name: 'tenHot', messages: 10, keys: 5, work: 0 },
  { name: 'oneHotWork', messages: 1, keys: 5, work: 5 },
];
const ORDERINGS = ['key', 'strict'] as const;

interface Database {
  readonly name: string;
  readonly dataSource: DataSource;
  readonly stores: Readonly<Record<(typeof ORDERINGS)[number], OutboxStore>>;
  /** CPU microseconds of the server so far. */
  cpu(): Promise<number>;
}

async function open(
  closing: Closing,
  name: string,
  options: DataSourceOptions,
  cpu: Database['cpu'],
): Promise<Database> {
  const dataSource = await new DataSource({ ...options, poolSize: WRITERS } as DataSourceOptions).initialize();
  closing.add(() => dataSource.destroy());
  const store = async (ordering: (typeof ORDERINGS)[number]): Promise<OutboxStore> => {
    const database = { setup: 'create', prefix: `${ordering}_` } as const;
    const relay = await benchRelay(
      dataSource,
      { default: new NoopTransport() },
      { ordering, database, buckets: BUCKETS },
    );
    closing.add(() => relay.close());
    return relay.store;
  };
  await dataSource.query('create table accounts (id int primary key, balance bigint not null)');
  const accounts = Array.from({ length: WRITERS }, (_, id) => `(${id}, 0)`).join(', ');
  await dataSource.query(`insert into accounts values ${accounts}`);
  return { name, dataSource, stores: { key: await store('key'), strict: await store('strict') }, cpu };
}

async function run(database: Database, ordering: (typeof ORDERINGS)[number], { messages, keys, work }: Case) {
  const { dataSource, stores } = database;
  const count = work > 0 ? transactions >> 2 : transactions;
  await dataSource.query(`truncate ${dataSource.options.type === 'postgres' ? '' : 'table '}${ordering}_ready`);
  const transaction = async (manager: EntityManager, writer: number): Promise<void> => {
    const rows = Array.from({ length: messages }, () =>
      newMessage({ key: `k${randomInt(keys)}`, payload: BYTES }, BUCKETS),
    );
    await stores[ordering].writer.insert(transactionExecutor(manager.queryRunner as never), rows);
    if (work > 0) await delay(work);
    await manager.query(`update accounts set balance = balance + 1 where id = ${writer}`);
  };
  const before = await database.cpu();
  let left = count;
  const { ms } = await timed(() =>
    Promise.all(
      Array.from({ length: WRITERS }, async (_, writer) => {
        while (left-- > 0) await dataSource.transaction((manager) => transaction(manager, writer));
      }),
    ),
  );
  const server = ((await database.cpu()) - before) / count;
  const [{ n }] = await dataSource.query(`select count(*) as n from ${ordering}_ready`);
  if (Number(n) !== count * messages) throw new Error(`${n} of ${count * messages} messages were committed.`);
  return { perSecond: (count / ms) * 1_000, server };
}

async function compare(database: Database, samples: Samples): Promise<void> {
  for (const each of CASES) {
    const key = await run(database, 'key', each);
    const strict = await run(database, 'strict', each);
    const name = `${database.name}.${each.name}`;
    samples.add({
      [`${name}.keyPerSecond`]: key.perSecond,
      [`${name}.strictPerSecond`]: strict.perSecond,
      [`${name}.ratio`]: strict.perSecond / key.perSecond,
      [`${name}.keyServerMicros`]: key.server,
      [`${name}.strictServerMicros`]: strict.server,
    });
  }
}

bench('strict', async (closing) => {
  const postgres = await startPostgres(closing, { ...SLOW_FLUSH, autovacuum: 'off' });
  const admin = await adminClient(closing, postgres.url);
  const mariadb = await startMariadb(closing);
  const databases = [
    await open(closing, 'postgres', { type: 'postgres', url: postgres.url, applicationName: APPLICATION }, () =>
      cpuOfBackends(admin, APPLICATION),
    ),
    await open(closing, 'mariadb', { type: 'mariadb', url: mariadb.url, timezone: 'Z' }, () =>
      Promise.resolve(cpuOfProcess(mariadb.pid)),
    ),
  ];
  const warm = CASES[0] as Case;
  for (const database of databases) for (const ordering of ORDERINGS) await run(database, ordering, warm);
  const samples = new Samples();
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    for (const database of databases) await compare(database, samples);
  }
  const ranges = databases.flatMap(({ name }) =>
    CASES.map((each) => [`${name}.${each.name}`, samples.range(`${name}.${each.name}.ratio`)] as const),
  );
  return {
    transactions,
    repeats,
    writers: WRITERS,
    flushMs: 0.8,
    ...samples.medians(),
    ratioRanges: Object.fromEntries(ranges),
  };
});
