import { ROW_LIMITS } from '../../lib/store/limits.js';
import { createEnqueueDatabase, type EnqueueDatabase } from '../support/enqueue-database.js';
import { describeWith, DATABASES } from '../support/services.js';

/** What a program with the right to insert writes past the library, into tables that were made by this release. */
describe.each(DATABASES)('rows that nobody could read or would look for, on %s', (kind) => {
  describeWith(kind, 'in tables that were just made', () => {
    let db: EnqueueDatabase;
    beforeAll(async () => {
      db = await createEnqueueDatabase(kind, 2, 'strict');
    });
    beforeEach(() => db.clear());
    afterAll(() => db?.drop());

    const TABLES = kind === 'postgres' ? (['ready', 'parked', 'staged'] as const) : (['ready', 'parked'] as const);
    const key = kind === 'postgres' ? 'key' : '`key`';
    const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
    /** @param more columns, with SQL for their values */
    function insert(table: string, more: Readonly<Record<string, string>>): Promise<unknown> {
      const row: Record<string, string> = { bucket: '1', id, topic: `'t'`, type: `'t'`, [key]: `'k'`, ...more };
      if (table === 'parked')
        Object.assign(row, { state: '1', due_at: kind === 'postgres' ? 'now()' : 'utc_timestamp(6)' });
      if (table === 'staged') row['leads'] = 'true';
      return db.dataSource.query(
        `insert into outbox_${table} (${Object.keys(row).join(', ')}) values (${Object.values(row).join(', ')})`,
      );
    }

    it.each(TABLES)('I3: a bucket that there is not is refused by %s', async (table) => {
      for (const bucket of ['-1', '32', '99'])
        await expect(insert(table, { bucket })).rejects.toThrow(`outbox_${table}_limits`);
      for (const bucket of ['0', '31']) await insert(table, { bucket });
      expect(await db.rows()).toHaveLength(2);
    });

    if (kind !== 'postgres') return; // there the types of the columns have a limit, and a relay reads none that are too large

    const LENGTHS = Object.entries(ROW_LIMITS).filter(([column]) => column !== 'payload');
    it.each(TABLES)('I3: a text that is too long is refused by %s, in each column', async (table) => {
      for (const [column, limit] of LENGTHS) {
        const name = column === 'key' ? key : column;
        await expect(insert(table, { [name]: `repeat('x', ${limit + 1})` })).rejects.toThrow(`outbox_${table}_limits`);
        await insert(table, { [name]: `repeat('x', ${limit})` });
      }
      expect(await db.rows()).toHaveLength(LENGTHS.length);
    });

    it('I3: a payload that is too large is refused', async () => {
      const payload = `convert_to(repeat('x', ${ROW_LIMITS.payload + 1}), 'UTF8')`;
      await expect(insert('ready', { payload })).rejects.toThrow('outbox_ready_limits');
    });

    it('I3: so are they by the view', async () => {
      for (const column of ['headers', 'options'] as const) {
        const long = `insert into outbox_messages (topic, ${column}) values ('t', repeat('x', ${ROW_LIMITS[column] + 1}))`;
        await expect(db.dataSource.query(long)).rejects.toThrow('outbox_ready_limits');
      }
    });
  });
});
