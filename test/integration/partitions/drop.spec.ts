import { DAY, dayName, insertAt, PartitionedArchive } from '../../support/partitioned-archive.js';
import { describeOnEach, describeWith } from '../../support/services.js';

describeOnEach([], 'a change of partitions beside others', (kind) => {
  let archive: PartitionedArchive;
  let now: number;
  beforeEach(async () => {
    archive = await PartitionedArchive.make(kind);
    now = (await archive.store().partitions?.layout())?.now as number;
  });
  afterEach(() => archive.close());

  it('S4-51: a drop gives up behind a long transaction, and whoever publishes waits no longer than its lock timeout', async () => {
    await archive.publishedAt(now - 5 * DAY);
    await archive.maintainer({ retention: '10d' }).runOnce();
    const long = archive.db.createQueryRunner();
    await long.startTransaction();
    await long.query(insertAt(kind, new Date(now)));
    let worked = true;
    const waits: number[] = [];
    const writer = (async () => {
      while (worked) {
        const begun = performance.now();
        await archive.publishedAt(now);
        waits.push(performance.now() - begun);
      }
    })();
    const maintainer = archive.maintainer({ retention: '3d', lockTimeout: '1s' });
    const report = await maintainer.runOnce();
    worked = false;
    await writer;
    await long.commitTransaction();
    await long.release();
    expect(report.dropped).toEqual([]);
    expect(report.notDone[0]).toMatchObject({ change: 'drop', why: expect.stringContaining('had the table') });
    expect(Math.max(...waits)).toBeGreaterThan(500);
    expect(Math.max(...waits)).toBeLessThan(2_500);
    expect((await maintainer.runOnce()).dropped).toContain(dayName(now - 5 * DAY));
  });

  it('a plain archive becomes one in partitions, and keeps its rows', async () => {
    await archive.close();
    archive = await PartitionedArchive.make(kind, false);
    await archive.publishedAt(now - 20 * DAY);
    await archive.publishedAt(now - 3 * DAY, 2);
    if (kind === 'postgres') await archive.db.query('grant insert on outbox_archive to pg_monitor');
    const maintainer = archive.maintainer({ retention: '10d' });
    expect(await maintainer.runOnce()).toMatchObject({ outcome: 'skipped', why: expect.stringContaining('plain') });
    expect(await maintainer.convert()).toEqual({ outcome: 'done', why: null });
    expect(await maintainer.convert()).toMatchObject({ outcome: 'skipped' });
    if (kind === 'postgres') {
      const [row] = await archive.db.query(
        `select has_table_privilege('pg_monitor', 'outbox_archive', 'insert') as may`,
      );
      expect(row.may).toBe(true);
    }
    await archive.publishedAt(now);
    expect(await maintainer.runOnce()).toMatchObject({ moved: 2, removed: 1, notDone: [] });
    expect(await archive.rows()).toEqual({ [dayName(now - 3 * DAY)]: 2, [dayName(now)]: 1 });
    expect(await archive.count('messages')).toBe(3);
    await archive.store().check({ buckets: 8, ordering: 'key', coordination: 'buckets' });
  });
});

describeWith('mysql', 'a drop looks into the partition, on mysql', () => {
  it('S4-U3: one row that is younger than the retention keeps it', async () => {
    const archive = await PartitionedArchive.make('mysql');
    try {
      const now = (await archive.store().partitions?.layout())?.now as number;
      await archive.publishedAt(now - 5 * DAY);
      await archive.maintainer({ retention: '10d' }).runOnce();
      const old = dayName(now - 5 * DAY);
      // The server is told not to look whether the row belongs there.
      await archive.db.query('create table other like outbox_archive');
      await archive.db.query('alter table other remove partitioning');
      await archive.db.query(insertAt('mysql', new Date(now)).replace('outbox_archive', 'other'));
      await archive.db.query(
        `alter table outbox_archive exchange partition ${old} with table other without validation`,
      );
      const report = await archive.maintainer({ retention: '3d' }).runOnce();
      expect(report.dropped).not.toContain(old);
      expect(report.notDone).toEqual([{ change: 'drop', partition: old, why: expect.stringContaining('younger') }]);
    } finally {
      await archive.close();
    }
  });
});
