import { createConnection, type Connection } from 'mysql2/promise';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import type { MysqlStore } from '../../../lib/store/mysql/store.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { until as eventually } from '../../support/postgres-store.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const KEYS = ['a', 'order-1', 'ключ', '\u{1F4A5}x', 'trailing ', 'Ä'.repeat(100), 'quote\' \\ "', ' ', 'é', 'e\u0301'];
const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describeOnMysqlFamily('tables', (kind) => {
  const stores = new MariaDbStores(kind, { buckets: 32 });
  let store: MysqlStore;
  beforeAll(async () => {
    await stores.start();
    store = stores.open();
    await store.setup.transports(['default'], 'default');
  });
  afterAll(async () => {
    await store?.close();
    await stores.stop();
  });

  async function foreign(charset: string, work: (connection: Connection) => Promise<void>): Promise<void> {
    const connection = await createConnection({ uri: stores.database.url, charset, timezone: '+09:00' });
    try {
      await connection.query(`set time_zone = '+09:00'`);
      await work(connection);
    } finally {
      await connection.end();
    }
  }
  const readAll = async () => {
    const positions = Array.from({ length: 32 }, (_, bucket) => ({ bucket, after: '0' }));
    return (await store.ready.fetch({ transport: 0, positions, perBucket: 1_000, limit: 10_000 })).messages;
  };
  const clear = () => stores.application.query('delete from outbox_ready');

  it.each(['utf8mb4', 'latin1'])('takes plain inserts of other programs, in the right bucket (%s)', async (charset) => {
    await clear();
    await foreign(charset, async (connection) => {
      for (const key of KEYS) {
        await connection.query('insert into outbox_ready (topic, `key`, payload) values (?, ?, ?)', [
          'orders',
          Buffer.from(key, 'utf8'),
          'x',
        ]);
      }
      await connection.query(`insert into outbox_ready (topic, payload) values ('orders', 'no key'), ('orders', null)`);
    });
    const messages = await readAll();
    expect(messages).toHaveLength(KEYS.length + 2);
    for (const message of messages) {
      expect(message.bucket).toBe(bucketOf(message.key ?? message.id, 32));
      expect(message.id).toMatch(V7);
      expect(Math.abs(parseInt(message.id.replace('-', '').slice(0, 12), 16) - Date.now())).toBeLessThan(60_000);
      expect(Math.abs(message.createdAt.getTime() - Date.now())).toBeLessThan(60_000);
      expect([message.type, message.version, message.contentType, message.attempts]).toEqual([
        'orders',
        1,
        'application/json',
        0,
      ]);
    }
    expect(new Set(messages.map(({ key }) => key))).toEqual(new Set([...KEYS, null]));
    expect(messages.filter(({ payload }) => payload === null)).toHaveLength(1);
  });

  it.each([0, 5])('refuses a state that is none: %i', async (state) => {
    const insert = stores.application.query(
      `insert into outbox_parked (topic, payload, state, due_at) values ('t', 'x', ${state}, utc_timestamp(6))`,
    );
    await expect(insert).rejects.toMatchObject({ message: expect.stringMatching(/constraint/i) });
  });

  it('says which table is missing', async () => {
    const rename = (from: string, to: string) => stores.application.query(`rename table ${from} to ${to}`);
    for (const table of ['outbox_leases', 'outbox_meta']) {
      await rename(table, 'elsewhere');
      const message = expect.stringContaining(table);
      await expect(store.setup.check(stores.settings)).rejects.toMatchObject({ code: 'SCHEMA_MISSING', message });
      await rename('elsewhere', table);
    }
    await store.setup.check(stores.settings);
  });

  it('knows when the server shows rows before they are on disk, and flushes with a row of its own', async () => {
    await clear();
    await stores.application.query(`insert into outbox_ready (topic, payload) values ('t', 'x')`);
    const [variables] = await stores.application.query(
      'select @@global.log_bin b, @@global.sync_binlog s, @@global.innodb_flush_log_at_trx_commit f',
    );
    const { durable } = await store.ready.fetch({
      transport: 0,
      positions: [...Array(32).keys()].map((bucket) => ({ bucket, after: '0' })),
      perBucket: 1,
      limit: 1,
    });
    expect(durable).toBe(Number(variables.b) === 1 && Number(variables.s) === 1 && Number(variables.f) === 1);
    const rows = async () =>
      Number((await stores.application.query(`select count(*) n from outbox_meta where name like 'flush:%'`))[0].n);
    const other = stores.open();
    await Promise.all([store.ready.flush(), other.ready.flush()]);
    expect(await rows()).toBe(2);
    const value = async () =>
      String((await stores.application.query(`select max(value) v from outbox_meta where name like 'flush:%'`))[0].v);
    const before = await value();
    await eventually('another write', async () => (await store.ready.flush(), (await value()) > before || undefined));
    await other.close();
    expect(await rows()).toBe(1);
    await store.setup.check(stores.settings);
  });
});
