import { lookDeadline } from '../../../lib/store/find-by-id.js';
import { PAGE_LOOK, type StoredRow } from '../../../lib/store/inspect-store.js';
import type { MysqlStore } from '../../../lib/store/mysql/store.js';
import { WIDE } from '../../../lib/store/seek-time.js';
import { statement } from '../../../lib/store/sql.js';
import { series } from '../../support/databases.js';
import { DAY, PartitionedArchive } from '../../support/partitioned-archive.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const [DAYS, ROWS] = [40, 80_000];
/** Two statements look at so many rows; servers count a row of a partition twice. */
const MOST_OF_PAGE = 6 * PAGE_LOOK;
const STATUS = { mariadb: 'information_schema.session_status', mysql: 'performance_schema.session_status' };

/** The server's own count of rows that it touched: an archive in 40 partitions is read through its index, and of a time in one. */
describeOnMysqlFamily('reads of an archive in partitions', (kind) => {
  let archive: PartitionedArchive;
  let store: MysqlStore;
  let now: number;

  beforeAll(async () => {
    archive = await PartitionedArchive.make(kind);
    store = archive.store() as MysqlStore;
    await archive.db.query(`insert into outbox_archive (bucket, seq, id, topic, type, payload, published_at)
      select seq % 8, seq, uuid(), 'orders', 't', 'x', utc_timestamp(6) - interval seq * ${(DAYS * 86_400) / ROWS} second from ${series(kind, ROWS)}`);
    now = (await store.partitions.layout()).now;
    const { created, moved } = await archive.maintainer({ retention: '90d' }).runOnce();
    expect([created.length, moved]).toEqual([DAYS + 3, ROWS]);
  }, 240_000);
  afterAll(() => archive.close());

  const touched = async (): Promise<number> => {
    const sql = `select sum(variable_value) from ${STATUS[kind]} where variable_name in ('Handler_read_first', 'Handler_read_key',
      'Handler_read_last', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd', 'Handler_read_rnd_next')`;
    const { rows } = await store.database.connection('admin').run(statement(undefined, sql).bind());
    return Number(rows[0]?.[0]);
  };
  async function expectCheap<T>(most: number, work: () => Promise<T>): Promise<T> {
    await work(); // what is read once
    const [first, before] = [await touched(), await touched()];
    const result = await work();
    expect((await touched()) - before - (before - first)).toBeLessThanOrEqual(most);
    return result;
  }

  it('pages, of all and of a filter that no message matches', async () => {
    const { inspect } = store;
    for (const filter of [{}, { type: 'none' }]) {
      const page = { ...filter, state: 'published' as const, limit: 50 };
      const { next } = await expectCheap(MOST_OF_PAGE, () => inspect.find({ ...page, after: null }));
      if (next !== null) await expectCheap(MOST_OF_PAGE, () => inspect.find({ ...page, after: next }));
    }
  });

  it('an id and its content', async () => {
    const id = `${(now - 20 * DAY)
      .toString(16)
      .padStart(12, '0')
      .replace(/^(.{8})/, '$1-')}-7000-8000-000000000001`;
    await archive.db.query(`insert into outbox_archive (bucket, seq, id, topic, type, payload, published_at)
      values (0, 1, '${id}', 'orders', 't', 'x', utc_timestamp(6) - interval 20 day + interval 1 minute)`);
    const { lookup } = store.inspect;
    const anHour = Math.ceil((2 * ROWS) / DAYS / 24);
    const [row] = (await expectCheap(2 * anHour, () => lookup.archivedNear([id], WIDE, lookDeadline()))) ?? [];
    expect(row).toMatchObject({ state: 'published', id });
    expect(await expectCheap(3 * DAYS, () => store.inspect.content(row as StoredRow, 10))).toMatchObject({
      payloadBytes: 1,
    });
  });

  it('a batch of the cleaner', async () => {
    expect(await expectCheap(3_000, () => store.cleaner.clean('archive', DAY, 500))).toMatchObject({ removed: 500 });
  });
});
