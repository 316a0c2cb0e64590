import { STATS_COUNT_LIMIT } from '../../../lib/store/admin-store.js';
import { series } from '../../support/databases.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

describe.each(DATABASES)('stats of a backlog on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness.close());

    it.each([-1, 0, 1])('are exact below the limit, not at it: %i beyond', async (beyond) => {
      harness = await createHarness(kind, { buckets: 1 });
      const count = STATS_COUNT_LIMIT + beyond;
      const some =
        kind === 'postgres'
          ? `gen_random_uuid() from generate_series(1, ${count})`
          : `uuid() from ${series(kind, count)}`;
      await harness.dataSource.query(
        `insert into outbox_ready (transport, bucket, topic, type, id) select 0, 0, 't', 't', ${some}`,
      );
      const [stats] = await harness.store.admin.stats();
      expect(stats).toMatchObject({ ready: Math.min(count, STATS_COUNT_LIMIT), readyIsExact: beyond < 0 });
    });
  });
});
