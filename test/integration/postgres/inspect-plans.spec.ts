import { randomUUID } from 'node:crypto';
import type { OutboxStore } from '../../../lib/index.js';
import { lookDeadline } from '../../../lib/store/find-by-id.js';
import { PAGE_LOOK, type InspectStore, type StoredRow } from '../../../lib/store/inspect-store.js';
import type { SqlConnection, SqlExecutor } from '../../../lib/store/executor.js';
import { TimedReads } from '../../../lib/store/postgres/inspect/timed-reads.js';
import { POSTGRES } from '../../../lib/store/postgres/dialect.js';
import { inspectSql } from '../../../lib/store/postgres/inspect/inspect.js';
import { Inspection } from '../../../lib/store/sql/inspect.js';
import type { StoreSettings } from '../../../lib/store/names.js';
import { partitionAt } from '../../../lib/store/partitions/period.js';
import { WIDE } from '../../../lib/store/seek-time.js';
import { statement, type Sql } from '../../../lib/store/sql.js';
import type { PlanNode } from '../../support/explaining-database.js';
import { nodesOf } from '../../support/explaining-database.js';
import { PostgresFixture } from '../../support/postgres-store.js';
import { describeWith } from '../../support/services.js';

const ROWS = 300_000;
const HOUR = 3_600_000;
/** What the name of a partition has behind that of the archive. */
const PART = /_(?:p\d+|default)$/;
const LARGE = new Set(['outbox_ready', 'outbox_parked', 'outbox_archive']);

interface CountedNode extends PlanNode {
  readonly 'Actual Loops'?: number;
  readonly 'Rows Removed by Filter'?: number;
}

/** Rows that a plan read from tables, and the tables that it scanned without an index. */
function readBy(plan: PlanNode): { rows: number; scanned: string[] } {
  const scans = (nodesOf(plan) as CountedNode[]).filter((node) =>
    LARGE.has((node['Relation Name'] ?? '').replace(PART, '')),
  );
  const rows = scans.map(
    (node) => ((node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0)) * (node['Actual Loops'] ?? 1),
  );
  return {
    rows: rows.reduce((sum, count) => sum + count, 0),
    scanned: scans.filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name'] as string),
  };
}

/** A UUIDv7 of this time. */
const idOf = (time: number): string =>
  time
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})/, '$1-') + '-7000-8000-000000000001';

/** Of hours, as far back as rows are. */
async function makePartitions({ partitions }: OutboxStore): Promise<void> {
  await partitions?.maintain(1_000, async (session) => {
    for (let at = Date.now() - 30 * HOUR; at < Date.now() + 2 * HOUR; at += HOUR)
      await session.create(partitionAt(at, 'hour'));
  });
}

/** Without ANALYZE, as just after a backlog came: each statement reads a bounded part of an index. */
describeWith('postgres', 'plans of what people ask', () => {
  describe.each(['is a plain table', 'is in partitions'] as const)('the archive %s', (shape) => {
    plansOf(shape);
  });
});

function plansOf(shape: 'is a plain table' | 'is in partitions'): void {
  const partitionedArchive = shape === 'is in partitions';
  const fixture = new PostgresFixture();
  const seen: { text: string; rows: number; scanned: string[] }[] = [];
  let inspect: InspectStore;

  beforeAll(async () => {
    await fixture.start();
    const store = fixture.store({ statementTimeout: 120_000 });
    // Rows are counted here, and a look is over when it has seen its own, however long that takes.
    const { select } = TimedReads.prototype;
    jest.spyOn(TimedReads.prototype, 'select').mockImplementation(function (this: TimedReads, deadline, read) {
      return select.call(this, deadline + 100_000, read);
    });
    await store.setup.create({ buckets: 32, ordering: 'key', coordination: 'buckets', partitionedArchive });
    if (partitionedArchive) await makePartitions(store);
    await store.setup.transports(['default'], 'default');
    const withStorage = [...LARGE].filter((table) => table !== 'outbox_archive' || !partitionedArchive);
    for (const table of withStorage)
      await fixture.application.query(`alter table ${table} set (autovacuum_enabled = off)`);
    const content = `gen_random_uuid(), 'orders', 't', 'x'::bytea`;
    await fixture.application.query(`insert into outbox_ready (bucket, key, id, topic, type, payload)
      select g % 32, 'k' || g % 5000, ${content} from generate_series(1, ${ROWS}) g`);
    await fixture.application.query(`insert into outbox_parked (bucket, key, state, due_at, id, topic, type, payload)
      select g % 32, 'k' || g % 5000, 1, now() + interval '1 d', ${content} from generate_series(1, ${ROWS / 3}) g`);
    await fixture.application.query(`insert into outbox_parked (bucket, key, state, blocking, id, topic, type, payload)
      select g % 32, 'b' || g % 50, 3, true, ${content} from generate_series(1, ${ROWS / 3}) g`);
    await fixture.application
      .query(`insert into outbox_parked (bucket, key, state, blocking, died_at, id, topic, type, payload)
      select g % 32, null, 4, false, now() - g * interval '1 s', ${content} from generate_series(1, ${ROWS / 3}) g`);
    await fixture.application.query(`insert into outbox_archive (bucket, seq, id, topic, type, payload, published_at)
      select g % 32, g, ${content}, now() - g * interval '1 s' from generate_series(1, ${ROWS / 3}) g`);
    const settings = store.settings as StoreSettings;
    const connection = explained(() => store.database.connection('admin'));
    inspect = new Inspection(new TimedReads(connection), POSTGRES, inspectSql(store.names, settings), settings);
  }, 600_000);
  afterAll(async () => {
    jest.restoreAllMocks();
    await fixture.stop();
  });

  /** Each select is explained, with its values, before it runs. */
  function explained(real: () => SqlConnection): () => SqlConnection {
    const explain = async (tx: SqlExecutor, sql: Sql): Promise<void> => {
      const text = sql.statement.questionMarks;
      if (!/^\s*(select|with)\b/.test(text) || text.includes('set_config')) return;
      const asked = statement(undefined, `explain (analyze, timing off, format json) ${text}`).bind(...sql.values);
      const [{ Plan: plan }] = JSON.parse((await tx.run(asked)).rows[0]?.[0] as string) as [{ Plan: PlanNode }];
      seen.push({ text, ...readBy(plan) });
    };
    return () => {
      const connection = real();
      return {
        generation: connection.generation,
        run: async (sql) => connection.run(sql),
        transaction: (work) =>
          connection.transaction((tx, ended) =>
            work(
              {
                run: async (sql) => {
                  await explain(tx, sql);
                  return tx.run(sql);
                },
              },
              ended,
            ),
          ),
      };
    };
  }
  async function expectCheap(most: number, work: () => Promise<unknown>): Promise<void> {
    seen.length = 0;
    await work();
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.filter(({ rows, scanned }) => rows > most || scanned.length > 0)).toEqual([]);
  }

  it.each(['dead', 'waiting', 'blocked', 'scheduled', 'ready', 'published'] as const)(
    'pages of what is %s, also of a filter that no message matches',
    async (state) => {
      const pages = async (filter: object): Promise<void> => {
        const { next } = await inspect.find({ ...filter, state, after: null, limit: 50 });
        if (next !== null) await inspect.find({ ...filter, state, after: next, limit: 50 });
      };
      for (const filter of [{}, { type: 'none' }, { transport: 0, topic: 'none' }, { olderThan: 3_600_000 }])
        await expectCheap(1.2 * PAGE_LOOK, () => pages(filter));
    },
  );

  it('pages of one key look into its bucket alone', async () => {
    await expectCheap(PAGE_LOOK, () => inspect.find({ key: 'k7', state: 'ready', after: null, limit: 50 }));
    await expectCheap(PAGE_LOOK, () => inspect.find({ key: 'b7', state: 'blocked', after: null, limit: 50 }));
  });

  it('what stands around a message, buckets and failures', async () => {
    const { rows: ready } = await inspect.find({ state: 'ready', after: '["200000","0","0"]', limit: 1 });
    await expectCheap(1_100, () => inspect.surroundings(ready[0] as StoredRow));
    const { rows: blocked } = await inspect.find({ state: 'blocked', after: null, limit: 1 });
    await expectCheap(10, () => inspect.surroundings(blocked[0] as StoredRow));
    await expectCheap(33 * 1_000, () => inspect.buckets());
    await expectCheap(2 * 10_000, () => inspect.failures({ states: ['dead'], look: 10_000 }));
    await expectCheap(3 * 10_000, () => inspect.failures({ states: ['dead', 'waiting'], look: 10_000 }));
  });

  it('what drain asks, again and again: an index entry of each bucket, and a bounded count', async () => {
    const last = () => inspect.find({ state: 'ready', after: null, limit: 1, backwards: true });
    const highest = (await last()).rows[0]?.seq;
    await expectCheap(2 * 32, last);
    await expectCheap(32 * 1_002, () => inspect.buckets(undefined, highest));
    await expectCheap(32 * 1_002, () => inspect.buckets(0, highest));
    await expectCheap(64, () => inspect.buckets(undefined, '0'));
    expect((await inspect.buckets(undefined, '3')).filter(({ ready }) => ready > 0)).toHaveLength(3);
  });

  it('an id in the archive, and its content', async () => {
    const id = idOf(Date.now() - 40_000_000);
    await fixture.application.query(`insert into outbox_archive (bucket, seq, id, topic, type, payload, published_at)
      values (0, 1, '${id}', 'orders', 't', 'x'::bytea, now() - interval '40000 s')`);
    const { lookup } = inspect as Inspection;
    let row: StoredRow | undefined;
    // As it is looked for where the whole archive is too long: the time of the id says where it begins.
    await expectCheap(4_500, async () => {
      [row] = (await lookup.archivedNear([id], WIDE, lookDeadline() + 100_000)) ?? [];
    });
    expect(row).toMatchObject({ state: 'published', id });
    await expectCheap(10, () => inspect.content(row as StoredRow, 10));
  });

  it('an id that is parked, and one that is nowhere', async () => {
    const { rows: dead } = await inspect.find({ state: 'dead', after: null, limit: 1 });
    expect((await inspect.byIds([dead[0]?.id as string])).rows).toMatchObject([{ state: 'dead' }]);
    expect((await inspect.byIds([randomUUID()])).rows).toEqual([]);
  });
}
