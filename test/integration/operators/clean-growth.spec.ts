import { randomUUID } from 'node:crypto';
import { OutboxCleaner } from '../../../lib/clean/cleaner.js';
import type { CleanReport } from '../../../lib/store/admin-store.js';
import { createHarness, RecordedHooks, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

const HOUR = 3_600_000;
const STAY = 300;
const GO = 250;
const PAGE = 50;

describe.each(DATABASES)('cleaning, by its cost', (kind) => {
  describeWith(kind, `on ${kind}`, () => {
    let harness: Harness;
    /** Old dedup keys: in front those of messages that wait, behind them those of messages that are out. */
    beforeEach(async () => {
      harness = await createHarness(kind);
      const scheduled = Array.from({ length: STAY }, (_, n) => ({ dedupKey: `stays-${n}`, delay: HOUR }));
      await harness.enqueue(scheduled);
      await harness.enqueue(Array.from({ length: GO }, (_, n) => ({ dedupKey: `goes-${n}` })));
      await harness.dataSource.query('delete from outbox_ready');
      await harness.dataSource.query(
        kind === 'postgres'
          ? `update outbox_dedup set created_at = created_at - interval '1 day'`
          : 'update outbox_dedup set created_at = created_at - interval 1 day',
      );
    });
    afterEach(() => harness.close());
    const left = async (): Promise<number[]> => {
      const counted = ['stays', 'goes'].map(async (name) => {
        const [row] = await harness.dataSource.query(
          `select count(*) as n from outbox_dedup where dedup_key like '${name}-%'`,
        );
        return Number(row.n);
      });
      return Promise.all(counted);
    };

    const MOST_CALLS = 20;
    async function cleanAll(): Promise<CleanReport[]> {
      const reports: CleanReport[] = [];
      do reports.push(await harness.store.cleaner.clean('dedup', HOUR, PAGE));
      while (reports.at(-1)?.looked === PAGE && reports.length < MOST_CALLS);
      return reports;
    }

    it('T2: a call that removes dedup keys looks at so many, and the next one goes on behind them', async () => {
      const reports = await cleanAll();
      expect(reports.slice(0, STAY / PAGE)).toEqual(Array(STAY / PAGE).fill({ removed: 0, looked: PAGE }));
      expect(reports.slice(STAY / PAGE, -1)).toEqual(Array(GO / PAGE).fill({ removed: PAGE, looked: PAGE }));
      expect(reports.at(-1)).toEqual({ removed: 0, looked: 0 });
      expect(await left()).toEqual([STAY, 0]);
    });

    it('keys of one instant are each looked at once', async () => {
      await harness.dataSource.query(`update outbox_dedup set created_at = '2020-01-01 00:00:00'`);
      expect(await cleanAll()).toHaveLength((STAY + GO) / PAGE + 1);
      expect(await left()).toEqual([STAY, 0]);
    });

    it('a pass removes all that may go, and the next one those that were held then', async () => {
      const retention = { ...harness.options.retention, published: HOUR, dead: null, dedup: HOUR };
      const cleaner = new OutboxCleaner(harness.store, new RecordedHooks(), retention, false);
      expect(await cleaner.runOnce()).toEqual({ published: 0, dead: 0, dedup: GO });
      await harness.dataSource.query('delete from outbox_parked');
      await harness.enqueue([{ dedupKey: `stays-${randomUUID()}` }]); // young
      expect(await cleaner.runOnce()).toEqual({ published: 0, dead: 0, dedup: STAY });
      expect(await left()).toEqual([1, 0]);
    });
  });
});
