import { setTimeout as pause } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import type { OutboxStore } from '../../../lib/index.js';
import { openStore } from '../../support/open-store.js';
import { canStart, startOwnMariaDb } from '../../support/own-database.js';
import { startOwnMysql } from '../../support/mysql-node.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { DATABASES, describeUnlessMissing, serviceUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

/** Longer than any session may idle on these servers, shorter than the time between two heartbeats. */
const IDLE = 4_000;

/** The sessions of one relay, and of its listener, as the server numbers them. */
async function sessionsOf(
  { database, dataSource }: Pick<Harness, 'database' | 'dataSource'>,
  store: OutboxStore,
): Promise<string[]> {
  if (database.kind === 'postgres') {
    const rows = (await dataSource.query(
      `select pid from pg_stat_activity where datname = current_database() and application_name = 'nestjs-outbox'`,
    )) as { pid: number }[];
    return rows.map(({ pid }) => String(pid)).sort();
  }
  const { connections } = (
    store as unknown as { database: { connections: Map<string, { opened?: { client: { threadId: number } } }> } }
  ).database;
  const ours = [...connections.values()].map(({ opened }) => String(opened?.client.threadId));
  const alive = (await dataSource.query('select id from information_schema.processlist')) as { id: string }[];
  return alive
    .map(({ id }) => String(id))
    .filter((id) => ours.includes(id))
    .sort();
}

const isThere = { ...canStart, postgres: serviceUrl('postgres') !== undefined };
const own = { mariadb: startOwnMariaDb, mysql: startOwnMysql };
const LIMITS = {
  mysql: ['wait_timeout = 2', 'interactive_timeout = 2'],
  mariadb: ['wait_timeout = 2', 'interactive_timeout = 2', 'idle_write_transaction_timeout = 1'],
  postgres: [],
};

describe.each(DATABASES)('a server that ends sessions that idle: %s', (kind) => {
  describeUnlessMissing(isThere[kind] ? [] : [kind], kind, () => {
    let server: { readonly url: string; stop(): unknown } | undefined;
    let harness: Harness;

    beforeAll(async () => {
      if (kind !== 'postgres') server = await own[kind]();
      harness = await createHarness(kind, { pollInterval: 60_000 }, server?.url);
      // For sessions that begin from now on: the one with which the test asks may idle.
      for (const limit of LIMITS[kind]) await harness.dataSource.query(`set global ${limit}`);
    });
    afterAll(async () => {
      await harness?.close();
      await server?.stop();
    });

    it('Q3: no session of a relay is ended while it waits, nor is its listener', async () => {
      const { dataSource } = harness;
      if (kind === 'postgres') {
        const [{ name }] = (await dataSource.query('select current_database() as name')) as [{ name: string }];
        await dataSource.query(`alter database ${name} set idle_session_timeout = '2s'`);
      }
      const transport = new ScriptedTransport();
      const { dispatcher, store } = harness.relay({ default: transport });
      let lost: unknown;
      const listener = await store.listen?.(
        () => undefined,
        (error) => (lost = error),
      );
      await dispatcher.start();
      const application = await new DataSource(harness.database.options).initialize();
      try {
        await application.query('select 1');
        await harness.enqueue([{ payload: Buffer.from('first') }]);
        await until(() => (dispatcher.nudge(), transport.texts.includes('first')));
        await until(async () => (await harness.count('ready')) === 0);
        const before = await sessionsOf(harness, store);
        expect(before.length).toBeGreaterThanOrEqual(3);
        await pause(IDLE);
        const gone = await sessionsOf(harness, store);
        expect(before.filter((id) => !gone.includes(id))).toEqual([]);
        expect(lost).toBeUndefined();
      } finally {
        await listener?.close();
        await dispatcher.stop();
        await application.destroy();
      }
    });

    if (kind !== 'postgres')
      it('Q4: a connection that is closed because nobody uses it says goodbye: the server logs no aborted one', async () => {
        const { database, ordering, coordination, onPublished, buckets } = harness.options;
        const tables = { options: database, ordering, coordination, onPublished, buckets };
        await harness.dataSource.destroy(); // the server ends its sessions, too, and counts those
        const dataSource = await new DataSource({ ...harness.database.options, poolSize: 1 } as never).initialize();
        await dataSource.query('set session wait_timeout = 3600');
        const store = openStore(dataSource, { ...tables, closeIdleAfter: 1_000 });
        const aborted = async (): Promise<string> =>
          (await dataSource.query(`show global status like 'Aborted_clients'`))[0].Value as string;
        try {
          await store.setup.transports();
          const [session] = await sessionsOf({ database: harness.database, dataSource }, store);
          const before = await aborted();
          await until(async () => {
            const alive = await dataSource.query('select id from information_schema.processlist');
            return !(alive as { id: string }[]).some(({ id }) => String(id) === session);
          });
          expect(await aborted()).toBe(before);
          await store.setup.transports();
        } finally {
          await store.close();
          await dataSource.destroy();
          await harness.dataSource.initialize();
        }
      });
  });
});
