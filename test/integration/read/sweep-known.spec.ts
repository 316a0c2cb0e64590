import { series } from '../../support/databases.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES, dialectOf } from '../../support/services.js';

const PAGE = { postgres: 10_000, mysql: 5_000 };
const KNOWN = 100;

describe.each(DATABASES)('%s: a sweep over rows that cannot leave', (kind) => {
  describeWith(kind, 'more of them than a page', () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    it('returns as many places more as the reader knows, and says whether these are all', async () => {
      harness = await createHarness(kind, { buckets: 1 });
      const page = PAGE[dialectOf(kind)];
      const rows = page + KNOWN - 1;
      const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
      await harness.dataSource.query(
        `insert into outbox_ready (id, topic, type, bucket, transport) select ${id}, 't', 't', 0, 0 from ${series(kind, rows)}`,
      );
      const range = { bucket: 0, after: '0', upTo: String(Number.MAX_SAFE_INTEGER) };
      const sweep = async (known?: number) => {
        const { places, complete } = await harness.store.ready.sweep(0, [range], known);
        return [places.length, complete];
      };
      expect(await sweep()).toEqual([page, false]);
      expect(await sweep(KNOWN - 1)).toEqual([rows, false]);
      expect(await sweep(KNOWN)).toEqual([rows, true]);
    });
  });
});
