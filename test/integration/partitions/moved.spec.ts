// @tier gate
import type { OutboxStore } from '../../../lib/index.js';
import { archivePages } from '../../../lib/admin/archive-pages.js';
import { runPurge, type PurgeAction } from '../../../lib/admin/purge/purge-run.js';
import type { InspectStore } from '../../../lib/store/inspect-store.js';
import type { OperatorStore } from '../../../lib/store/operator-store.js';
import { DAY, insertAt, PartitionedArchive } from '../../support/partitioned-archive.js';
import { describeOnEach } from '../../support/services.js';

/** Rows that were found before they were moved into their partitions: all were published at once, and others took their numbers. */
describeOnEach([], 'what operators found in an archive that is moved meanwhile', (kind) => {
  const AT = new Date(Date.now() - 2 * DAY); // in another partition than what is published now
  let archive: PartitionedArchive;
  let inspect: InspectStore;
  let operators: OperatorStore;
  beforeEach(async () => {
    archive = await PartitionedArchive.make(kind, false);
    ({ inspect, operators } = archive.store() as Required<OutboxStore>);
    for (let n = 0; n < 8; n++) await archive.db.query(insertAt(kind, AT));
  });
  afterEach(() => archive.close());

  const published = { from: null, before: new Date(AT.getTime() + 1) };
  const found = async (after: string | null, limit: number) =>
    (await inspect.find({ state: 'published', published, after, limit })).rows;
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
    expect(rest.map(({ id }) => id)).toEqual(all.slice(3).map(({ id }) => id));
    const messages = await operators.archived(all.map(({ position }) => position));
    expect(messages.map(({ id }) => id)).toEqual(all.map(({ id }) => id));
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

    const sources = () => {
      const { partitions } = archive.store() as Required<OutboxStore>;
      const slow = Object.assign(Object.create(inspect) as InspectStore, { find: around(inspect.find.bind(inspect)) });
      return { operators, partitions, inspect: slow };
    };

    it('a purge does not say that it is done', async () => {
      const action = { meant: request, transport: undefined } as unknown as PurgeAction;
      const options = { actor: 'ann', chunkSize: 100, pause: 0, progress: () => undefined } as never;
      await expect(runPurge(sources(), action, options, '{}')).rejects.toMatchObject(moving);
      expect(await archive.count()).toBe(8);
    });

    it('a replay does not go on without them', async () => {
      const slow = sources();
      const pages = archivePages(slow.inspect, slow.partitions, 'replay', { published, after: null });
      await expect(pages.next()).rejects.toMatchObject(moving);
    });
  });

  it('an action means what was published in the millisecond in which it begins', async () => {
    const column = kind === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)';
    await archive.db.query(`update outbox_archive set published_at = ${column}`);
    const { now } = await inspect.bounds();
    const begun = { from: null, before: now };
    const { rows } = await inspect.find({ state: 'published', published: begun, after: null, limit: 100 });
    expect(rows).toHaveLength(8);
  });

  it('a purge deletes those that it found, and no others', async () => {
    const rows = await found(null, 100);
    expect(rows).toHaveLength(8);
    await move();
    const audit = await operators.begin({ action: 'purge', actor: 'ann', filter: '{}' });
    const positions = rows.map(({ position }) => position);
    expect(await operators.step(audit, { do: 'purge', positions })).toMatchObject({ done: 8, skipped: 0 });
    expect(await archive.count()).toBe(8);
    expect(await found(null, 100)).toEqual([]);
  });
});
