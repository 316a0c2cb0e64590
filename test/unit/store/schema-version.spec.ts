import { readFileSync } from 'node:fs';
import { outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { SCHEMA_VERSION } from '../../../lib/store/names.js';

/** A change that tables of a release lack needs a version of its own, with an `Upgrade` in `lib/data-layers/tables/steps.ts`. */
describe.each(['postgres', 'mysql'] as const)('the tables of each version on %s', (dialect) => {
  it('are what the committed file says', () => {
    const committed = readFileSync(`test/support/schema-${SCHEMA_VERSION}/${dialect}.sql`, 'utf8');
    expect(outboxSql(dialect, { buckets: 8, ordering: 'strict' }).up).toBe(committed);
  });
});
