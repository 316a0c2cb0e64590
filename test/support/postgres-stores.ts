import { DataSource } from 'typeorm';
import type { StoreHarness } from 'nestjs-outbox/testing';
import type { OutboxStore } from '../../lib/index.js';
import { outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import { openStore } from './open-store.js';
import type { SchemaSettings } from '../../lib/store/outbox-store.js';
import { createTestDatabase, type TestDatabase } from './databases.js';
import { PgBouncer } from './pgbouncer.js';

/** Far from UTC, another date style, serializable by default, and of texts the values that matter. */
const SESSION = {
  timezone: 'Asia/Kathmandu',
  datestyle: 'German',
  default_transaction_isolation: 'serializable',
  intervalstyle: 'sql_standard',
  client_min_messages: 'error',
  'plpgsql.extra_errors': 'all',
};
/** The first would keep the application itself from writing, the second ends its session with each error. */
const OF_THE_APPLICATION = ['default_transaction_read_only', 'exit_on_error'];

/** @param pooled in transaction mode; nothing but the pooler's address is known */
export function postgresStores(
  database: { schema?: string; prefix: string; pooler?: boolean },
  ordering: SchemaSettings['ordering'] = 'key',
  pooled = false,
): StoreHarness {
  const settings = { buckets: 8, ordering, coordination: 'buckets' } as const;
  let testDatabase: TestDatabase;
  let application: DataSource;
  let pooler: PgBouncer | undefined;
  const open = (): OutboxStore =>
    openStore(application, {
      ...settings,
      onPublished: 'delete',
      options: { setup: 'create', schema: undefined, pooler: undefined, ...database },
    });
  return {
    settings,
    proof: 'snapshot',
    async start() {
      testDatabase = await createTestDatabase('postgres');
      await setForAll(testDatabase);
      if (pooled) pooler = await PgBouncer.start(testDatabase.url, 'transaction', 40);
      const url = pooler?.through(testDatabase.url) ?? testDatabase.url;
      application = await new DataSource({ type: 'postgres', url }).initialize();
      const { prefix, schema } = database;
      const shape = { prefix, ...(schema === undefined ? {} : { schema }), ...settings };
      if (!pooled) await application.query(outboxSql('postgres', shape).up); // in a session of the application's
      const store = open();
      await store.setup.create(settings);
      await store.close();
    },
    async stop() {
      await application.destroy();
      pooler?.stop();
      await testDatabase.drop();
    },
    open,
    async begin() {
      const runner = application.createQueryRunner();
      await runner.startTransaction('READ COMMITTED');
      return {
        tx: transactionExecutor(runner),
        commit: () => runner.commitTransaction().finally(() => runner.release()),
        rollback: () => runner.rollbackTransaction().finally(() => runner.release()),
      };
    },
    async forget(transports) {
      const name = (table: string): string => `"${database.schema ?? 'public'}"."${database.prefix}${table}"`;
      const all = transports.join(', ');
      for (const table of ['ready', 'parked', 'leases'])
        await application.query(`delete from ${name(table)} where transport in (${all})`);
      await application.query(`delete from ${name('transports')} where id in (${all})`);
    },
    async setNextSeq(seq) {
      const name = `"${database.schema ?? 'public'}"."${database.prefix}ready_seq_seq"`;
      await application.query(`alter sequence ${name} restart with ${seq}`);
    },
  };
}

/** Every setting that a role may have, but for those of developers, is another one than PostgreSQL's own, for each session of the database. */
async function setForAll({ url }: TestDatabase): Promise<void> {
  const dataSource = await new DataSource({ type: 'postgres', url }).initialize();
  const name = new URL(url).pathname.slice(1);
  const others = await dataSource.query<{ name: string; value: string }[]>(
    `select name, case vartype
       when 'bool' then case boot_val when 'on' then 'off' else 'on' end
       when 'enum' then (select one from unnest(enumvals) as one where one <> boot_val limit 1)
       else case when min_val = boot_val then max_val else min_val end end as value
     from pg_settings where context = 'user' and vartype <> 'string' and name !~ '^(transaction|debug|force)_' and lower(name) <> all($1)`,
    [[...OF_THE_APPLICATION, ...Object.keys(SESSION)]],
  );
  for (const [setting, value] of [...others.map((other) => [other.name, other.value]), ...Object.entries(SESSION)])
    await dataSource.query(`alter database ${name} set ${setting} = '${value}'`);
  await dataSource.destroy();
}
