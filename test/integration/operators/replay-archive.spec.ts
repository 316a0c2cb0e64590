import { randomUUID } from 'node:crypto';
import { uuidV7 } from '../../../lib/message/uuid-v7.js';
import type { MysqlStore } from '../../../lib/store/mysql/store.js';
import { TimedSelect } from '../../../lib/store/mysql/inspect/select.js';
import { TimedReads } from '../../../lib/store/postgres/inspect/timed-reads.js';
import { PAGE_LOOK, type InspectStore, type RowPage, type RowRequest } from '../../../lib/store/inspect-store.js';
import { statement } from '../../../lib/store/sql.js';
import { series } from '../../support/databases.js';
import { nodesOf, type PlanNode } from '../../support/explaining-database.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { DATABASES, describeWith } from '../../support/services.js';

const ROWS = 50_000;
const SECOND = 1_000;
const FIRST = new Date('2026-01-01T00:00:00.000Z');
/** When the n-th row was published. */
const at = (n: number): Date => new Date(FIRST.getTime() + n * SECOND);
const BEFORE = new Date('2027-01-01T00:00:00Z');

type Filter = Pick<RowRequest, 'ids' | 'type'> & { readonly from?: Date; readonly before?: Date };

/** The archive as a replay reads it: one row was published each second. */
describe.each(DATABASES)('the archive of a replay, on %s', (kind) => {
  describeWith(kind, kind, () => {
    const isPostgres = kind === 'postgres';
    let harness: Harness;
    let inspect: InspectStore;

    beforeAll(async () => {
      harness = await createHarness(kind, { buckets: 4 });
      inspect = harness.store.inspect as InspectStore;
      const time = isPostgres
        ? `timestamptz '${FIRST.toISOString()}' + s.seq * interval '1 second'`
        : `timestamp '2026-01-01 00:00:00' + interval s.seq second`;
      const id = isPostgres ? 'gen_random_uuid()' : 'uuid()';
      const type = `case when s.seq % 10000 = 0 then 'rare' else 't' end`;
      await harness.dataSource.query(`insert into outbox_archive (transport, bucket, seq, id, topic, type, published_at)
        select 0, s.seq % 4, s.seq, ${id}, 't', ${type}, ${time} from ${series(kind, ROWS)}`);
    });
    afterAll(() => harness?.close());

    /** Numbers of what a filter means, page by page. */
    async function walked(
      { from, before = BEFORE, ...filter }: Filter,
      limit = 4_000,
    ): Promise<{ seqs: number[]; pages: number }> {
      const seqs: number[] = [];
      let [after, pages]: [string | null, number] = [null, 0];
      do {
        const page: RowPage = await inspect.find({
          ...filter,
          state: 'published',
          published: { from: from ?? null, before },
          after,
          limit,
        });
        expect(page.rows.length).toBeLessThanOrEqual(limit);
        seqs.push(...page.rows.map(({ seq }) => Number(seq)));
        after = page.next;
        pages += 1;
      } while (after !== null);
      return { seqs, pages };
    }
    const upTo = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, n) => from + n);

    it('is walked page by page, each row once, from the first time of a window to before its last', async () => {
      expect((await walked({})).seqs).toEqual(upTo(1, ROWS + 1));
      expect((await walked({ from: at(100), before: at(300) }, 7)).seqs).toEqual(upTo(100, 300));
      const rare = await walked({ type: 'rare' });
      expect(rare.seqs).toEqual([10_000, 20_000, 30_000, 40_000, 50_000]);
      expect(rare.pages).toBe(Math.ceil(ROWS / PAGE_LOOK)); // each looks at a bounded number of rows
      expect(await walked({ ids: [uuidV7(), randomUUID()], from: at(ROWS - 100) })).toEqual({ seqs: [], pages: 1 });
    });

    it('is read by an index, and a window only where it is', async () => {
      const explained = isPostgres ? explainedOnPostgres : explainedOnMysql;
      const { used, rows } = await explained(() => walked({ from: at(30_000), before: at(30_100) }, 50), harness);
      expect(used).toEqual(isPostgres ? ['outbox_archive_pkey'] : ['by_time']);
      expect(rows).toBeLessThanOrEqual(isPostgres ? 100 : 400); // MySQL tells an estimate
    });

    it('has what was published at once in its order, wherever the rows lay', async () => {
      const ids = Array.from({ length: 20 }, () => uuidV7());
      const values = ids.map((id, n) => `(0, 1, ${1_000 + n}, '${id}', 't', 'k', 'batch', 'x')`).reverse();
      const key = isPostgres ? 'key' : '`key`';
      await harness.dataSource
        .query(`insert into outbox_ready (transport, bucket, seq, id, topic, ${key}, type, payload)
        values ${values.join(', ')}`);
      const messages = ids.map((id, n) => ({ bucket: 1, seq: String(1_000 + n), id, attempts: 0, parkedId: null }));
      await harness.store.ready.settle(0, messages, 'archive');
      const published = { from: at(ROWS + 1), before: BEFORE };
      const { rows } = await inspect.find({ state: 'published', type: 'batch', published, after: null, limit: 100 });
      expect(rows.map(({ id }) => id)).toEqual(ids);
    });
  });
});

interface Explained {
  /** Indexes of the archive. */
  readonly used: string[];
  /** That one statement read, at most. */
  readonly rows: number;
}

async function explainedOnPostgres(work: () => Promise<unknown>): Promise<Explained> {
  const { select } = TimedReads.prototype;
  const scans: PlanNode[] = [];
  const spy = jest.spyOn(TimedReads.prototype, 'select').mockImplementation(async function (
    this: TimedReads,
    deadline,
    read,
  ) {
    const text = `explain (analyze, format json) ${read.text}`;
    const [row] = await select.call(this, deadline, { ...read, text });
    const [{ Plan: plan }] = JSON.parse(row?.[0] as string) as [{ Plan: PlanNode }];
    scans.push(...nodesOf(plan).filter((node) => node['Relation Name'] === 'outbox_archive'));
    return select.call(this, deadline, read);
  });
  await work();
  spy.mockRestore();
  return {
    used: [...new Set(scans.map((node) => node['Index Name'] ?? node['Node Type']))],
    rows: Math.max(...scans.map((node) => node['Actual Rows'] ?? 0)),
  };
}

async function explainedOnMysql(work: () => Promise<unknown>, harness: Harness): Promise<Explained> {
  const { select } = TimedSelect.prototype;
  const found: (readonly unknown[])[] = [];
  const spy = jest.spyOn(TimedSelect.prototype, 'select').mockImplementation(async function (
    this: TimedSelect,
    deadline,
    read,
  ) {
    const text = `explain ${read.text}`;
    found.push(
      ...(
        await (harness.store as MysqlStore).database
          .connection('admin')
          .run(statement(undefined, text).bindAll(read.values))
      ).rows,
    );
    return select.call(this, deadline, read);
  });
  await work();
  spy.mockRestore();
  const rowsOf = (row: readonly unknown[]): number => Math.max(...row.slice(8).map((cell) => Number(cell) || 0));
  const ofArchive = found.filter((row) => row.includes('outbox_archive'));
  const used = ofArchive.map((row) => (row.includes('by_time') && row.includes('range') ? 'by_time' : row.join(' ')));
  return { used: [...new Set(used)], rows: Math.max(...ofArchive.map(rowsOf)) };
}
