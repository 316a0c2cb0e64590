import { DataSource } from 'typeorm';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import { outboxEntities, outboxSql, type OutboxMessageRow } from '../../../lib/data-layers/typeorm/index.js';
import { describeWith } from '../../support/services.js';
import { DATABASE, PostgresFixture, SETTINGS } from '../../support/postgres-store.js';

describeWith('postgres', 'PostgreSQL schema', () => {
  const fixture = new PostgresFixture();
  let db: DataSource;
  beforeAll(async () => {
    db = (await fixture.start()).application;
  });
  afterAll(() => fixture.stop());

  it('says what to run when nothing is there, or something is wrong', async () => {
    const store = fixture.store();
    await expect(store.setup.check(SETTINGS)).rejects.toMatchObject({
      code: 'SCHEMA_MISSING',
      message: expect.stringContaining('outboxMigrations'),
    });
    await db.query('create schema elsewhere create table outbox_meta (name text)');
    await expect(store.setup.check(SETTINGS)).rejects.toMatchObject({
      hint: expect.stringMatching(/^The schema "elsewhere" has such tables: set database\.schema to it\. Or: Run npx/),
    });
    await db.query('drop schema elsewhere cascade');
    await store.setup.create(SETTINGS);
  });

  it('takes the longest prefix', async () => {
    const options = { prefix: `${'x'.repeat(42)}_`, schema: 'y'.repeat(63) };
    const store = fixture.store({ options: { ...DATABASE, ...options } });
    await store.setup.create(SETTINGS);
    await store.setup.check(SETTINGS);
    await store.setup.create(SETTINGS);
    expect(await store.diagnose?.ask('warnings')).toEqual([]);
    await db.query(outboxSql('postgres', options).down);
  });

  it('is left alone by synchronize, and read through entities', async () => {
    const [entity] = outboxEntities();
    const other = await new DataSource({
      ...fixture.database.options,
      entities: [entity as never],
      synchronize: true,
    }).initialize();
    try {
      await db.query(`insert into outbox_messages (topic, key, payload) values ('read', 'k', '1')`);
      const [row] = await other.getRepository<OutboxMessageRow>(entity as never).findBy({ topic: 'read' });
      expect(row).toMatchObject({
        state: 'ready',
        key: 'k',
        type: 'read',
        contentType: 'application/json',
        attempts: 0,
        publishedAt: null,
      });
      expect((await other.driver.createSchemaBuilder().log()).upQueries).toEqual([]);
    } finally {
      await other.destroy();
    }
    await fixture.store().setup.check(SETTINGS);
  });

  it.each([0, 5])('refuses a state that is none: %i', async (state) => {
    const insert = db.query(`insert into outbox_parked
      (transport, bucket, seq, id, type, topic, content_type, payload, state, due_at, created_at)
      values (0, 0, 1, gen_random_uuid(), 't', 't', 'text/plain', 'x', ${state}, now(), now())`);
    await expect(insert).rejects.toMatchObject({ code: '23514' }); // check_violation
  });

  describe('the view', () => {
    it('takes rows from any program, in the right bucket', async () => {
      const store = fixture.store();
      const transports = await store.setup.transports(['default', 'audit'], 'default');
      const keys = ['a', 'ключ', '💥x', 'trailing ', 'Ä'.repeat(100), null, ''];
      for (const key of keys)
        await db.query('insert into outbox_messages (topic, key, payload) values ($1, $2, $3)', ['bucket', key, '"ü"']);
      const rows = (await db.query(`select id, key, bucket, payload from outbox_messages where topic = 'bucket'`)) as {
        id: string;
        key: string | null;
        bucket: number;
        payload: string;
      }[];
      expect(rows.length).toBe(keys.length);
      for (const row of rows) {
        expect(row.bucket).toBe(bucketOf(row.key ?? row.id, SETTINGS.buckets));
        expect(row.payload).toBe('"ü"');
        expect(row.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
        expect(Math.abs(parseInt(row.id.replace('-', '').slice(0, 12), 16) - Date.now())).toBeLessThan(600_000);
      }
      const [given] =
        await db.query(`insert into outbox_messages (topic, key, payload_bytes, transport, due_at, type, headers, content_type)
        values ('given', 'k', '\\x00ff', 'audit', now() + interval '1 h', 'a.b', '{"h":"1"}', 'application/octet-stream') returning id, state, seq`);
      expect(given).toMatchObject({ state: 'scheduled' });
      const [seen] = await db.query(`select * from outbox_messages where topic = 'given'`);
      expect(seen).toMatchObject({
        id: given.id,
        seq: given.seq,
        transport: 'audit',
        type: 'a.b',
        headers: '{"h":"1"}',
        payload: '\\x00ff',
        state: 'scheduled',
      });
      expect((await store.parked.due(transports.get('audit') as number, [seen.bucket], 1)).nextIn).toBeGreaterThan(
        3_500_000,
      );
      await expect(db.query(`insert into outbox_messages (topic, transport) values ('t', 'nope')`)).rejects.toThrow(
        'no transport named nope',
      );
      await expect(
        db.query(`insert into outbox_messages (topic, key) values ('t', repeat('x', 1025))`),
      ).rejects.toThrow('longer than');
    });
  });
});
