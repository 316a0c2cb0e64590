import { OutboxCleaner } from '../../../lib/clean/cleaner.js';
import { resolveOptions } from '../../../lib/options/resolve.js';
import { partitionAt } from '../../../lib/store/partitions/period.js';
import { DAY, dayName, PartitionedArchive } from '../../support/partitioned-archive.js';
import { describeOnEach } from '../../support/services.js';

const SETTINGS = { buckets: 8, ordering: 'key', coordination: 'buckets' } as const;

describeOnEach([], 'OutboxPartitionMaintainer', (kind) => {
  let archive: PartitionedArchive;
  let now: number;
  beforeEach(async () => {
    archive = await PartitionedArchive.make(kind);
    now = (await archive.store().partitions?.layout())?.now as number;
  });
  afterEach(() => archive.close());
  const names = async (): Promise<string[]> => (await archive.maintainer().status()).partitions.map(({ name }) => name);

  it('makes the partitions of today and of the days ahead, once; what is published has its own', async () => {
    const maintainer = archive.maintainer();
    const wanted = [0, 1, 2].map((days) => dayName(now + days * DAY));
    expect(await maintainer.runOnce()).toEqual({
      outcome: 'done',
      why: null,
      created: wanted,
      dropped: [],
      moved: 0,
      removed: 0,
      notDone: [],
    });
    expect(archive.hooks.of('partitionChange')).toEqual(wanted.map((partition) => ({ change: 'create', partition })));
    expect((await maintainer.runOnce()).created).toEqual([]);
    await archive.publishedAt(now);
    expect(await archive.rows()).toEqual({ [wanted[0] as string]: 1 });
    await archive.store().setup.check(SETTINGS);
  });

  it('S4-44: moves what landed in the catch-all into its partition, and removes what is too old', async () => {
    await archive.publishedAt(now - 20 * DAY, 2);
    await archive.publishedAt(now - 3 * DAY, 3);
    await archive.publishedAt(now, 4);
    const report = await archive.maintainer({ retention: '10d' }).runOnce();
    expect(report).toMatchObject({ moved: 7, removed: 2, notDone: [] });
    expect(await archive.rows()).toEqual({ [dayName(now - 3 * DAY)]: 3, [dayName(now)]: 4 });
    expect(await archive.isThere('archive_aside')).toBe(false);
    await archive.store().setup.check(SETTINGS);
  });

  it('S4-43: takes what no partition is for, and leaves it in the catch-all', async () => {
    const maintainer = archive.maintainer();
    await maintainer.runOnce();
    await archive.publishedAt(now + 4000 * DAY);
    expect(await maintainer.runOnce()).toMatchObject({ moved: 0, created: [], notDone: [] });
    expect(await archive.rows()).toEqual({ rest: 1 });
  });

  it('drops a partition whose end is older than the retention, and no other', async () => {
    await archive.publishedAt(now - 5 * DAY, 2);
    await archive.publishedAt(now - 2 * DAY, 3);
    await archive.maintainer({ retention: '10d' }).runOnce();
    const report = await archive.maintainer({ retention: '3d' }).runOnce();
    expect(report.dropped).toContain(dayName(now - 5 * DAY));
    expect(report.notDone).toEqual([]);
    expect(await archive.rows()).toEqual({ [dayName(now - 2 * DAY)]: 3 });
    expect((await names())[0]).toBe(dayName(now - 3 * DAY));
  });

  it('a pass with rules of its own says before what it will do, and refuses what is no rule', async () => {
    const maintainer = archive.maintainer();
    await archive.publishedAt(now - 5 * DAY);
    await maintainer.runOnce({ retention: '10d' });
    const request = { period: 'day', lookahead: '4d', retention: '3d' } as const;
    const plan = await maintainer.plan(request);
    expect(plan).toMatchObject({ kind: 'partitioned', create: [3, 4].map((days) => dayName(now + days * DAY)) });
    expect(plan.drop).toContain(dayName(now - 5 * DAY));
    const { created, dropped } = await maintainer.runOnce(request);
    expect({ create: created, drop: dropped }).toMatchObject({ create: plan.create, drop: plan.drop });
    for (const [wrong, words] of [
      [{ period: 'week' }, /period must be 'hour' \| 'day' \| 'month'/],
      [{ retention: -1 }, /retention must be a duration/],
      [{ lookahead: '5y' }, /lookahead must be a duration/],
    ] as const)
      await expect(maintainer.runOnce(wrong as never)).rejects.toMatchObject({
        code: 'INVALID_OPTIONS',
        message: expect.stringMatching(words),
      });
  });

  it('a pass that is to stop ends after the step in hand; the next one goes on', async () => {
    await archive.publishedAt(now - 2 * DAY, 3);
    const maintainer = archive.maintainer({ retention: '10d' });
    const stopped = await maintainer.runOnce({}, { signal: { aborted: true } });
    expect(stopped).toMatchObject({ outcome: 'done', moved: 0, notDone: [] });
    expect(await archive.isThere('archive_aside')).toBe(true);
    expect((await maintainer.status()).isMoving).toBe(true);
    expect(await maintainer.runOnce()).toMatchObject({ moved: 3, notDone: [] });
    expect(await archive.rows()).toEqual({ [dayName(now - 2 * DAY)]: 3 });
  });

  it('drops nothing with a retention of null', async () => {
    await archive.publishedAt(now - 100 * DAY);
    const maintainer = archive.maintainer({ retention: null });
    await maintainer.runOnce();
    expect(await maintainer.runOnce()).toMatchObject({ dropped: [], moved: 0 });
    expect(await archive.rows()).toEqual({ [dayName(now - 100 * DAY)]: 1 });
  });

  it('leaves a partition that is not its own, however old', async () => {
    await archive.maintainer().runOnce();
    const old = '2001-01-01 00:00:00';
    const sql =
      kind === 'postgres'
        ? `create table outbox_archive_mine partition of outbox_archive for values from ('2000-01-01 00:00:00+00') to ('${old}+00')`
        : `alter table outbox_archive reorganize partition ${dayName(now)} into (partition mine values less than ('${old}'),
            partition ${dayName(now)} values less than ('${new Date(now + DAY).toISOString().slice(0, 10)} 00:00:00'))`;
    await archive.db.query(sql);
    const report = await archive.maintainer({ retention: '1d' }).runOnce();
    expect(report.dropped).toEqual([]);
    expect(report.notDone).toEqual([{ change: 'drop', partition: 'mine', why: expect.stringContaining('not those') }]);
    expect(await names()).toContain('mine');
  });

  if (kind === 'postgres')
    it('a table that has the name of a partition is in the way of this one alone', async () => {
      const late = now - 5 * DAY;
      await archive.publishedAt(late);
      await archive.maintainer().runOnce();
      await archive.db.query(`alter table outbox_archive detach partition outbox_archive_${dayName(late)}`);
      await archive.publishedAt(late);
      const report = await archive.maintainer({ lookahead: '3d' }).runOnce();
      expect(report).toMatchObject({
        created: [dayName(now + 3 * DAY)],
        notDone: [{ change: 'create', partition: dayName(late), why: expect.stringContaining('another table') }],
      });
      expect(await archive.rows()).toEqual({ rest: 1 });
    });

  if (kind === 'postgres')
    it('a partition whose rows come into the catch-all meanwhile is left for the next pass', async () => {
      const soon = now + 30 * DAY;
      await archive.publishedAt(soon);
      const made = archive.store().partitions?.maintain(60_000, (session) => session.create(partitionAt(soon, 'day')));
      expect(await made).toBe('rows for it came into the catch-all meanwhile');
      expect((await archive.maintainer({ lookahead: '31d' }).runOnce()).moved).toBe(1);
    });

  it('S4-46: of two at once one works and the other says skipped', async () => {
    const [first, second] = [archive.maintainer(), archive.maintainer()];
    let other: unknown;
    const { store } = first as unknown as { store: { partitions: { maintain: (...args: unknown[]) => unknown } } };
    const { partitions } = store;
    const maintain = partitions.maintain.bind(partitions);
    partitions.maintain = (timeout: unknown, work: unknown) =>
      maintain(timeout, async (session: unknown) => {
        other = await second.runOnce();
        return (work as (session: unknown) => unknown)(session);
      });
    const report = await first.runOnce();
    expect(other).toMatchObject({
      outcome: 'skipped',
      created: [],
      why: expect.stringContaining('another maintainer'),
    });
    expect(report.created).toHaveLength(3);
    expect((await second.runOnce()).outcome).toBe('done');
  });

  it('S4-U5: a session that ends in the middle ends the pass; the lock is free', async () => {
    const maintainer = archive.maintainer();
    const store = archive.store();
    const { partitions } = store;
    await expect(
      partitions?.maintain(60_000, async (session) => {
        await session.layout();
        await endSessions();
        await session.layout();
      }),
    ).rejects.toThrow();
    expect((await maintainer.runOnce()).outcome).toBe('done');
  });
  const endSessions = async (): Promise<void> => {
    if (kind === 'postgres')
      return void (await archive.db.query(
        `select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
         where l.locktype = 'advisory' and d.datname = current_database()`,
      ));
    const [{ id }] = await archive.db.query(
      `select is_used_lock(concat('nestjs-outbox ', database(), '.outbox_partitions')) as id`,
    );
    await archive.db.query(`kill ${Number(id)}`);
  };

  it('S4-U4: refuses an archive that is partitioned in another way, and so does the start', async () => {
    const sql =
      kind === 'postgres'
        ? 'drop table outbox_archive_default'
        : `alter table outbox_archive reorganize partition pmax into (partition other values less than (maxvalue))`;
    await archive.db.query(sql);
    await expect(archive.maintainer().runOnce()).rejects.toThrow(/partitioned as the maintainer needs it/);
    await expect(archive.store().setup.check(SETTINGS)).rejects.toMatchObject({ code: 'SCHEMA_MISMATCH' });
  });

  it('reads and makes the same bounds whatever the time zone of sessions is', async () => {
    if (kind !== 'postgres') await archive.db.query(`set time_zone = '+05:45'`);
    else
      await archive.db.query(
        `do $$ begin execute format('alter database %I set timezone to ''Asia/Kathmandu''', current_database()); end $$`,
      );
    const report = await archive.maintainer({ period: 'month', lookahead: '400d' }).runOnce();
    const { partitions } = await archive.maintainer().status();
    for (const { name, from } of partitions) {
      const time = `${name.slice(1, 5)}-${name.slice(5, 7)}-01T00:00:00.000Z`;
      if (from !== null) expect(from.toISOString()).toBe(time);
    }
    expect(report.created.length).toBeGreaterThan(13);
  });

  describe('beside the cleaner', () => {
    const cleaner = () => {
      const { retention } = resolveOptions({
        transports: { default: { kind: 'none', receipt: 'broker', create: () => Promise.reject(new Error()) } },
        retention: { published: '1d' },
      });
      return new OutboxCleaner(archive.store(), archive.hooks, retention, false);
    };

    it('a configured pass leaves what is published to the maintainer, and says when there is none', async () => {
      await archive.publishedAt(now - 5 * DAY, 2);
      const passes = cleaner();
      expect((await passes.runOnce()).published).toBe(0);
      expect(archive.hooks.of('warning')).toEqual([]);
      await passes.runOnce();
      expect(archive.hooks.of('warning')[0]?.text).toContain('OutboxPartitionMaintainer');
      expect(await archive.count()).toBe(2);
    });

    it('a pass that is asked for takes old rows only, at most so many, whatever partition they are in', async () => {
      for (const days of [6, 5, 4, 0]) await archive.publishedAt(now - days * DAY, 3);
      await archive.maintainer({ retention: '30d' }).runOnce();
      const request = { before: new Date(now - 3 * DAY) };
      expect((await cleaner().runOnce({ ...request, limit: 4 })).published).toBe(4);
      expect(await archive.count()).toBe(8);
      expect((await cleaner().runOnce(request)).published).toBe(5);
      expect(await archive.rows()).toEqual({ [dayName(now)]: 3 });
    });
  });
});
