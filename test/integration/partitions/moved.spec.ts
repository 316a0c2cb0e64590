// @tier gate
import type { OutboxStore } from '../../../lib/index.js';
import type { PurgeStore } from '../../../lib/store/edit/purge-store.js';
import { runPurge, type PurgeAction, type PurgeSources } from '../../../lib/admin/purge/purge-run.js';
import { archivePages } from '../../../lib/admin/replay/replay-run.js';
import type { BulkStore, ReplayStore } from '../../../lib/store/bulk-store.js';
import { DAY, insertAt, PartitionedArchive } from '../../support/partitioned-archive.js';
import { describeOnEach } from '../../support/services.js';

/** Rows that were found before they were moved into their partitions: all were published at once, and others took their numbers. */
describeOnEach([], 'what operators found in an archive that is moved meanwhile', (kind) => {
  const AT = new Date(Date.now() - 2 * DAY); // in another partition than what is published now
  let archive: PartitionedArchive;
  let purge: PurgeStore;
  let replay: ReplayStore;
  let bulk: BulkStore;
  beforeEach(async () => {
    archive = await PartitionedArchive.make(kind, false);
    ({ purge, replay, bulk } = archive.store() as Required<OutboxStore>);
    for (let n = 0; n < 8; n++) await archive.db.query(insertAt(kind, AT));
  });
  afterEach(() => archive.close());

  const found = async (after: string | null, limit: number) =>
    (await replay.find({ filter: { from: null, before: new Date(AT.getTime() + 1) }, after, limit })).rows;
  const move = async (): Promise<void> => {
    const maintainer = archive.maintainer();
    await maintainer.convert();
    await archive.publishedAt(Date.now(), 8);
    await maintainer.runOnce();
    expect(await archive.count()).toBe(16);
  };

  it('a replay goes on behind the last row that it read, and reads those that it found', async () => {
    const all = await found(null, 100);
    await move();
    const rest = await found(all[2]?.position as string, 100);
    expect(rest.map(({ row }) => row.id)).toEqual(all.slice(3).map(({ row }) => row.id));
    const messages = await replay.read(all.map(({ position }) => position));
    expect(messages.map(({ id }) => id)).toEqual(all.map(({ row }) => row.id));
  });

  describe('all of them beside it while a look is under way', () => {
    const moving = { code: 'ARCHIVE_MOVING' };
    const request = { ids: undefined, texts: {}, transport: undefined, olderThan: 0 };
    /** Puts them there before the look, and back after it. */
    const around = <A extends unknown[], T>(look: (...args: A) => Promise<T>) => {
      const maintainer = archive.maintainer();
      return async (...args: A): Promise<T> => {
        await maintainer.convert();
        const answer = await look(...args);
        await maintainer.runOnce();
        return answer;
      };
    };

    it('a purge does not say that it is done', async () => {
      const { partitions, edits } = archive.store() as Required<OutboxStore>;
      const slow = Object.assign(Object.create(purge) as PurgeStore, { archived: around(purge.archived.bind(purge)) });
      const sources = { bulk, edits, partitions, purge: slow } as PurgeSources;
      const action = { meant: request, transport: undefined } as unknown as PurgeAction;
      const options = { actor: 'ann', chunkSize: 100, pause: 0, progress: () => undefined } as never;
      await expect(runPurge(sources, action, options, '{}')).rejects.toMatchObject(moving);
      expect(await archive.count()).toBe(8);
    });

    it('a replay does not go on without them', async () => {
      const { partitions } = archive.store() as Required<OutboxStore>;
      const slow = Object.assign(Object.create(replay) as ReplayStore, { find: around(replay.find.bind(replay)) });
      const filter = { from: null, before: new Date(AT.getTime() + 1) };
      const pages = archivePages({ store: slow, partitions } as never, { plan: { after: null }, filter } as never);
      await expect(pages.next()).rejects.toMatchObject(moving);
    });
  });

  it('an action means what was published in the millisecond in which it begins', async () => {
    const column = kind === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)';
    await archive.db.query(`update outbox_archive set published_at = ${column}`);
    const { now } = await bulk.bounds();
    const { rows } = await purge.archived({ until: now, after: null, limit: 100 });
    expect([
      rows.length,
      (await replay.find({ filter: { from: null, before: now }, after: null, limit: 100 })).rows.length,
    ]).toEqual([8, 8]);
  });

  it('a purge deletes those that it found, and no others', async () => {
    const request = { until: AT, after: null, limit: 100 };
    const { rows } = await purge.archived(request);
    expect(rows).toHaveLength(8);
    await move();
    const audit = await bulk.begin({ action: 'purge', actor: 'ann', filter: '{}' });
    expect(await purge.remove(audit, rows)).toBe(8);
    expect(await archive.count()).toBe(8);
    expect((await purge.archived(request)).rows).toEqual([]);
  });
});
