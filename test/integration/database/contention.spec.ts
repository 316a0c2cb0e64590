import { randomUUID } from 'node:crypto';
import { openMysqlDatabase } from '../../../lib/data-layers/typeorm/mysql.js';
import { openPostgresDatabase } from '../../../lib/data-layers/typeorm/postgres.js';
import { statement } from '../../../lib/store/sql.js';
import { series } from '../../support/databases.js';
import { gate } from '../../support/transport-relay.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { DATABASE, SETTINGS } from '../../support/postgres-store.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until, untilDone } from '../../support/until.js';

const MINUTE = 60_000;
const BACKLOG = 100_000;

describe.each(DATABASES)('many at once on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0)) await close();
      await harness?.close();
    });
    const sql = (postgres: string, mariadb: string): string => (kind === 'postgres' ? postgres : mariadb);
    const past = sql(`now() - interval '1 s'`, 'utc_timestamp(6) - interval 1 second');
    const ready = (rows: number, transport = 0): Promise<unknown> =>
      harness.dataSource.query(
        sql(
          `insert into outbox_ready (transport, bucket, key, id, topic, type, payload)
            select ${transport}, g % 32, 'k' || g, gen_random_uuid(), 't', 't', '{}' from generate_series(1, ${rows}) g`,
          `insert into outbox_ready (transport, bucket, \`key\`, id, topic, type, payload)
            select ${transport}, seq % 32, concat('k', seq), uuid(), 't', 't', '{}' from ${series(kind, rows)}`,
        ),
      );

    it('B7: fifty ask at the same moment for leases that have just expired: each has one owner, and a new epoch', async () => {
      harness = await createHarness(kind);
      const stores = Array.from({ length: 8 }, () => harness.relay().store);
      const acquire = (n: number) =>
        (stores[n % 8] as (typeof stores)[0]).leases.acquire({
          owner: randomUUID(),
          leaseMs: MINUTE,
          transport: 0,
          limit: 3,
        });
      for (let round = 1; round <= 10; round += 1) {
        const together = (await Promise.all(Array.from({ length: 50 }, (_, n) => acquire(n)))).flat();
        // What two looked at in the same instant may have been left by both.
        for (let n = 0; together.length < 32 && n < 32; n += 1) together.push(...(await acquire(n)));
        expect(together.map(({ bucket }) => bucket).sort((a, b) => a - b)).toEqual(
          Array.from({ length: 32 }, (_, n) => n),
        );
        expect(new Set(together.map(({ epoch }) => epoch))).toEqual(new Set([String(round)]));
        await harness.dataSource.query(`update outbox_leases set expires_at = ${past}`);
      }
    });

    it('B8: takes no more than asked for with joins that the planner does not like and statistics of an empty table', async () => {
      harness = await createHarness(kind);
      const { dataSource } = harness;
      const name = new URL(harness.database.url).pathname.slice(1);
      if (kind === 'postgres') {
        for (const table of ['ready', 'leases', 'parked']) await dataSource.query(`analyze outbox_${table}`);
        for (const method of ['hashjoin', 'mergejoin'])
          await dataSource.query(`alter database ${name} set enable_${method} = off`);
      } else for (const table of ['ready', 'leases', 'parked']) await dataSource.query(`analyze table outbox_${table}`);
      await ready(3_000);
      const { store } = harness.relay();
      const owner = randomUUID();
      expect(await store.leases.acquire({ owner, leaseMs: MINUTE, transport: 0, limit: 3 })).toHaveLength(3);
      const positions = Array.from({ length: 32 }, (_, bucket) => ({ bucket, after: '0' }));
      const { messages } = await store.ready.fetch({ transport: 0, positions, perBucket: 5, limit: 50 });
      expect(messages).toHaveLength(50);
      let locked = 0;
      await store.rowLocks.withLockedRows({ transport: 0, limit: 7, onPublished: 'delete' }, async (rows) => {
        locked = rows.length;
        return { published: rows, parked: [], reparked: [] };
      });
      expect([locked, await harness.count('ready')]).toEqual([7, 2_993]);
    });

    it('B9: 100,000 messages for a broker that is down do not delay those for another', async () => {
      const transports = { dead: new ScriptedTransport(), live: new ScriptedTransport() };
      harness = await createHarness(kind, { transports, defaultTransport: 'live', pollInterval: 50 });
      transports.dead.behave = () => ({ ok: false, blame: 'transport', error: new Error('down') });
      const [dead, live] = ['dead', 'live'].map((each) => harness.transportIds.get(each) as number);
      await ready(BACKLOG, dead as number);
      const { dispatcher, hooks } = harness.relay(transports);
      await dispatcher.start();
      await hooks.until('circuitOpened');
      for (let n = 0; n < 50; n += 1) {
        const [id] = (await harness.enqueue([{ transport: live as number, key: `k${n % 5}` }])) as [string];
        await transports.live.until(() => transports.live.published.some((message) => message.id === id), 60_000);
      }
      expect(hooks.of('dead')).toEqual([]);
      expect(await harness.count('ready')).toBeGreaterThanOrEqual(BACKLOG);
    });

    it('B10: whoever stands still in the middle of expiring leases loses its session, and holds up nobody meanwhile', async () => {
      harness = await createHarness(kind, { buckets: 4 });
      const { store } = harness.relay();
      const former = randomUUID();
      await store.leases.acquire({ owner: former, leaseMs: MINUTE, transport: 0, limit: 2 });
      await harness.dataSource.query(`update outbox_leases set expires_at = ${past}`);
      const heir = { owner: randomUUID(), leaseMs: 60 * MINUTE, transport: 0, limit: 4 };
      const goesOn = await standStill(former, 10 * MINUTE);
      expect(await store.leases.acquire(heir)).toHaveLength(2);
      await store.leases.expire();
      await goesOn();
      await untilDone(() => standStill(former, 1_000)); // on a slow machine it may end before it stands still
      const rest: unknown[] = [];
      await until(async () => rest.push(...(await store.leases.acquire(heir))) === 2, MINUTE);
    });

    /** In a transaction that locks the leases of `owner`. Its session may idle in it for so many milliseconds. */
    async function standStill(owner: string, statementTimeout: number): Promise<() => Promise<void>> {
      const settings = { ...SETTINGS, ...DATABASE, schema: sql('public', ''), onPublished: 'delete' as const };
      const limits = { errorHistory: 0, statementTimeout, connectTimeout: MINUTE };
      const open = kind === 'postgres' ? openPostgresDatabase : openMysqlDatabase;
      const frozen = open(harness.dataSource, { ...settings, ...limits } as never);
      closing.push(() => frozen.close());
      const leases = `${sql('public.', '')}outbox_leases`;
      const lock = statement(undefined, `select bucket from ${leases} where owner = '${owner}' for update`).bind();
      const [locked, still] = [gate(), gate()];
      closing.push(async () => still.open());
      const holding = frozen.connection('lease').transaction(async (tx) => {
        expect((await tx.run(lock)).rows).toHaveLength(2);
        locked.open();
        await still.opened;
      });
      const ended = holding.catch(locked.fail);
      await locked.opened;
      return async () => (still.open(), ended);
    }
  });
});
