import { DAY, dayName, insertAt, PartitionedArchive } from '../../support/partitioned-archive.js';
import { describeOnEach, describeWith } from '../../support/services.js';

describeOnEach([], 'a change of partitions beside others', (kind) => {
  let archive: PartitionedArchive;
  afterEach(() => archive.close());
  const clock = async (): Promise<number> => (await archive.store().partitions?.layout())?.now as number;

  it('S4-51: a drop gives up behind a long transaction, and whoever publishes waits no longer than its lock timeout', async () => {
    archive = await PartitionedArchive.make(kind);
    const now = await clock();
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
    const maintainer = archive.maintainer({ retention: '4d', lockTimeout: '1s' }); // one partition is older
    const report = await maintainer.runOnce();
    worked = false;
    await writer; // the long transaction still holds what the drop waited for
    await long.commitTransaction();
    await long.release();
    expect(report.dropped).toEqual([]);
    expect(report.notDone[0]).toMatchObject({ change: 'drop', why: expect.stringContaining('had the table') });
    // One of the two writes that cover the second for which the drop asks: half of it at least.
    expect(Math.max(...waits)).toBeGreaterThan(400);
    expect((await maintainer.runOnce()).dropped).toContain(dayName(now - 5 * DAY));
  });

  it('a plain archive becomes one in partitions, and keeps its rows', async () => {
    archive = await PartitionedArchive.make(kind, false);
    const now = await clock();
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
    await archive.store().setup.check({ buckets: 8, ordering: 'key', coordination: 'buckets' });
  });
});

describeOnEach([], 'a drop of a partition', (kind) => {
  let archive: PartitionedArchive;
  let now: number;
  beforeAll(async () => {
    archive = await PartitionedArchive.make(kind);
    now = (await archive.store().partitions?.layout())?.now as number;
    for (const days of [5, 6]) await archive.publishedAt(now - days * DAY, 2); // one for each test
    await archive.maintainer({ retention: '10d' }).runOnce();
  });
  afterAll(() => archive?.close());
  const drop = (name: string, before: number): Promise<boolean | undefined> | undefined =>
    archive.store().partitions?.maintain(60_000, (session) => session.drop(name, before));

  it('S4-U3: one row inside of the retention keeps it, and so does an end that is inside', async () => {
    const old = dayName(now - 5 * DAY);
    const end = Date.parse(`${old.slice(1, 5)}-${old.slice(5, 7)}-${old.slice(7, 9)}`) + DAY;
    expect(await drop(old, end - 1)).toBe(false);
    expect(await drop(old, now - 5 * DAY)).toBe(false);
    expect((await archive.rows())[old]).toBe(2);
    const others = (await archive.count()) - 2;
    expect(await drop(old, end)).toBe(true);
    expect(await archive.count()).toBe(others);
  });

  it('S4-U3: one that is gone, or was taken out to be kept, is not dropped', async () => {
    expect(await drop('p20010101', now)).toBe(false);
    if (kind !== 'postgres') return;
    const old = dayName(now - 6 * DAY);
    await archive.db.query(`alter table outbox_archive detach partition outbox_archive_${old}`);
    expect(await drop(old, now)).toBe(false);
    expect(await archive.count(`archive_${old}`)).toBe(2);
  });
});

describeWith('postgres', 'a drop of partitions on PostgreSQL', () => {
  let archive: PartitionedArchive;
  beforeEach(async () => {
    archive = await PartitionedArchive.make('postgres');
  });
  afterEach(() => archive.close());

  it('S4-U3: a table that is named otherwise, or whose bounds are no times, stays', async () => {
    const part = 'partition of outbox_archive for values from';
    await archive.db.query(`create table p20010101 ${part} ('2001-01-01 00:00:00+00') to ('2001-01-02 00:00:00+00')`);
    await archive.db.query(`create table outbox_archive_p19990101 ${part} ('-infinity') to ('1999-01-02 00:00:00+00')`);
    await archive.db.query(`create table outbox_archive_p20050101 ${part} ('2005-01-01 00:00:00+00') to (maxvalue)`);
    const report = await archive.maintainer({ retention: '1d' }).runOnce();
    expect(report.dropped).toEqual([]);
    expect(report.notDone.map(({ partition }) => partition)).toEqual(['p19990101', 'table p20010101']);
    expect((await archive.maintainer().plan({ retention: '1d' })).drop).toEqual([]);
  });

  it('a partition belongs to the owner of the archive, whoever of its members makes it', async () => {
    await archive.db.query(`do $$ begin create role outbox_other; exception when others then end $$`);
    await archive.db.query('grant create on schema public to outbox_other');
    await archive.db.query('alter table outbox_archive owner to outbox_other');
    await archive.maintainer().runOnce();
    const owners = await archive.db.query(
      `select distinct pg_get_userbyid(c.relowner) as owner from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = 'outbox_archive'::regclass and c.relname <> 'outbox_archive_default'`,
    );
    expect(owners).toEqual([{ owner: 'outbox_other' }]);
    await archive.db.query('drop owned by outbox_other cascade');
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
      const maintainer = archive.maintainer({ retention: '3d' });
      const report = await maintainer.runOnce();
      expect(report.dropped).not.toContain(old);
      expect(report.notDone).toEqual([{ change: 'drop', partition: old, why: expect.stringContaining('younger') }]);
    } finally {
      await archive.close();
    }
  });
});
