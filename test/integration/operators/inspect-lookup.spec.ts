import { randomUUID } from 'node:crypto';
import { createUuidV7 } from '../../../lib/message/uuid-v7.js';
import type { StoredRow } from '../../../lib/store/inspect-store.js';
import type { Inspection } from '../../../lib/store/sql/inspect.js';
import { CLOSE, WIDE } from '../../../lib/store/seek-time.js';
import { series } from '../../support/databases.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

const ROWS = 2_000;
const MINUTE = 60_000;
const idAt = (time: number): string => createUuidV7({ now: () => time })();

/** As in tables that are too long to be looked through for an id. */
describe.each(DATABASES)('the way by the time in an id, on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    let lookup: Inspection['lookup'];
    /** Of the message with this number: one was written each minute, and published two minutes later. */
    const timeOf = (n: number): number => Math.floor(begin + n * MINUTE);
    const begin = Date.now() - ROWS * MINUTE;
    const soon = (): number => performance.now() + 3_600_000;

    beforeAll(async () => {
      harness = await createHarness(kind, { buckets: 4 });
      lookup = (harness.store.inspect as Inspection).lookup;
      const isPostgres = kind === 'postgres';
      const id = isPostgres ? 'gen_random_uuid()' : 'uuid()';
      const first = new Date(begin).toISOString();
      const at = (shift: number): string =>
        isPostgres
          ? `timestamptz '${first}' + (s.seq + ${shift}) * interval '1 minute'`
          : `timestamp '${first.replace('T', ' ').replace('Z', '')}' + interval (s.seq + ${shift}) minute`;
      const from = `from ${series(kind, ROWS)}`;
      await harness.dataSource.query(`insert into outbox_ready (bucket, id, topic, type, created_at)
        select s.seq % 4, ${id}, 't', 't', ${at(0)} ${from} order by s.seq`);
      await harness.dataSource
        .query(`insert into outbox_archive (transport, bucket, seq, id, topic, type, created_at, published_at)
        select 0, s.seq % 4, s.seq, ${id}, 't', 't', ${at(0)}, ${at(2)} ${from}`);
    });
    afterAll(() => harness.close());

    async function rename(table: 'ready' | 'archive', n: number, id: string): Promise<void> {
      const [row] = await harness.dataSource.query(
        `select min(seq) as first from outbox_${table}`, // numbers rise by one from there
      );
      await harness.dataSource.query(
        `update outbox_${table} set id = '${id}' where seq = ${Number(row.first) + n - 1}`,
      );
    }

    it.each([1, 700, ROWS])('finds ready message %i of two thousand, and the numbers of its time', async (n) => {
      const id = idAt(timeOf(n));
      await rename('ready', n, id);
      for (const reach of [CLOSE, WIDE])
        expect(await lookup.near([id], reach, soon())).toMatchObject([{ id, state: 'ready' }]);
      const range = await lookup.numbersBetween({ from: timeOf(n) - 5, to: timeOf(n) + 5 }, soon());
      expect(Number(range?.to) - Number(range?.from)).toBeLessThanOrEqual(1);
    });

    it('finds an archived message, near its time and anywhere behind it', async () => {
      const id = idAt(timeOf(900));
      await rename('archive', 900, id);
      for (const published of [MINUTE, Infinity])
        expect(await lookup.archivedNear([id], { ...WIDE, published }, soon())).toMatchObject([
          { id, state: 'published' },
        ]);
    });

    it('says that the content of a message could not be read in time, not that the message is gone', async () => {
      const inspect = harness.store.inspect as Inspection;
      const { rows } = await inspect.find({ state: 'ready', after: null, limit: 1 });
      const runner = harness.dataSource.createQueryRunner();
      const [lock, unlock] =
        kind === 'postgres'
          ? ['begin; lock table outbox_ready in access exclusive mode', 'rollback']
          : ['lock tables outbox_ready write', 'unlock tables'];
      await runner.query(lock);
      try {
        await expect(inspect.content(rows[0] as StoredRow, 0)).rejects.toMatchObject({ code: 'TIMEOUT' });
      } finally {
        await runner.query(unlock);
        await runner.release();
      }
    });

    it('finds nothing of another time, and looks everywhere for an id that tells none', async () => {
      const [late, random] = [idAt(timeOf(1_200)), randomUUID()];
      await rename('ready', 300, late);
      expect(await lookup.near([late], WIDE, soon())).toEqual([]);
      expect(await lookup.near([random], WIDE, soon())).toEqual([]);
      await rename('archive', 301, random);
      expect(await lookup.archivedNear([random], { ...WIDE, published: MINUTE }, soon())).toMatchObject([
        { id: random },
      ]);
      expect((await harness.store.inspect?.byIds([late, random]))?.rows).toMatchObject([
        { id: late, state: 'ready' },
        { id: random, state: 'published' },
      ]);
    });
  });
});
