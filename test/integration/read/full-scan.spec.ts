import { Reader } from '../../../lib/relay/read/reader.js';
import { ProbedLowWaterMark } from '../../../lib/relay/read/probed-low-water-mark.js';
import { SnapshotLowWaterMark } from '../../../lib/relay/read/snapshot-low-water-mark.js';
import { systemClock } from '../../../lib/time/clock.js';
import type { ReadRange } from '../../../lib/store/ready-store.js';
import { series } from '../../support/databases.js';
import { createHarness, wrapped, type Harness } from '../../support/relay.js';
import { describeOnEach } from '../../support/services.js';

const DEAD = 200_000;
/** Numbers of a slice that count as too many here, as if its statement had taken too long. */
const LIMIT = 20_000;

describeOnEach([], 'a look at everything while a snapshot is held that keeps dead rows', (kind) => {
  let harness: Harness;
  const closing: (() => unknown)[] = [];
  beforeEach(async () => {
    harness = await createHarness(kind, { buckets: 2 });
    closing.push(() => harness.close());
    const runner = harness.dataSource.createQueryRunner();
    await runner.startTransaction('REPEATABLE READ');
    await runner.query('select count(*) from outbox_ready');
    closing.push(() => runner.rollbackTransaction().then(() => runner.release()));
    const rows = kind === 'postgres' ? `generate_series(1, ${DEAD}) s(seq)` : series(kind, DEAD);
    const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
    const [key, text] = kind === 'postgres' ? ['key', `'k' || seq`] : ['`key`', `concat('k', seq)`];
    await harness.dataSource.query(
      `insert into outbox_ready (${kind === 'postgres' ? 'bucket, ' : ''}id, topic, ${key}, type)
       select ${kind === 'postgres' ? 'seq % 2, ' : ''}${id}, 't', ${text}, 't' from ${rows}`,
    );
    await harness.dataSource.query('delete from outbox_ready');
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  it('Q1: goes down in slices, is cut where it is given up, ends, and messages go out between two slices', async () => {
    const asked: { ranges: readonly ReadRange[]; isOver: boolean }[] = [];
    let isScan = false;
    const store = wrapped(harness.store, {
      async sweep(transport, ranges, known) {
        const isOver = isScan && ranges.some(({ after, upTo }) => Number(upTo) - Number(after) > LIMIT);
        if (isScan) asked.push({ ranges, isOver });
        if (isOver) throw Object.assign(new Error('statement timeout'), { code: '57014', errno: 1969 });
        return harness.store.ready.sweep(transport, ranges, known);
      },
    });
    const floor =
      kind === 'postgres' ? new SnapshotLowWaterMark() : new ProbedLowWaterMark(() => systemClock.monotonic());
    const reader = new Reader(store.ready, 0, floor, systemClock, { fullScanEvery: 1 });
    const { scan } = reader.lateRows;
    const wide = 2n ** 24n;
    Object.assign(scan.reach, { first: wide, width: wide });
    const { scanSlice } = reader.lateRows;
    reader.lateRows.scanSlice = async (...args) => {
      isScan = true;
      return scanSlice.apply(reader.lateRows, args).finally(() => (isScan = false));
    };
    for (const bucket of [0, 1]) reader.add(bucket);
    let reads = 0;
    let turns = 0;
    for (; turns === 0; reads += 1) {
      await harness.enqueue([{ bucket: 1, payload: Buffer.from(`${reads}`) }]);
      const before = scan.left;
      const found: string[] = [];
      while (found.length === 0) {
        const { messages } = await reader.read(100);
        found.push(...messages.map(({ payload }) => String(payload)));
      }
      expect(found).toEqual([`${reads}`]);
      if (before !== undefined && scan.left === undefined) turns += 1;
    }
    expect(turns).toBe(1);
    expect(asked.some(({ isOver }) => isOver)).toBe(true);
    // What was looked at is not looked at again: each slice that was through begins where the one before it ended.
    const through = asked
      .filter(({ isOver }) => !isOver)
      .map(({ ranges }) => ranges.find(({ bucket }) => bucket === 0));
    for (const [i, range] of through.entries())
      if (i > 0 && range !== undefined && through[i - 1]?.after !== '0') expect(range.upTo).toBe(through[i - 1]?.after);
  });
});
