import { randomUUID } from 'node:crypto';
import type { OutboxStore } from '../../../lib/index.js';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import { series } from '../../support/databases.js';
import { operatorOf } from '../../support/operator.js';
import { createHarness, ScriptedTransport } from '../../support/relay.js';
import { DATABASES, describeWith } from '../../support/services.js';

const ROWS = 400_000;
const BUCKETS = 32;
const LAST = 'last of all';

/** Operators' look-ups, behind a long backlog of the first of two transports. What a look cannot find in its two seconds is not named. */
async function expectNamed(
  store: OutboxStore,
  last: string,
  ordering: 'key' | 'global',
  application: { query(text: string): Promise<unknown> },
): Promise<void> {
  // What nobody leases could be cancelled.
  for (const transport of [0, 1])
    await store.leases.acquire({ owner: randomUUID(), transport, leaseMs: 3_600_000, limit: BUCKETS });
  const operator = operatorOf(store, { buckets: BUCKETS, ordering });
  const absent = randomUUID();
  const byId = await operator.cancel({ ids: [absent, last] });
  expect([...byId.tooLate, ...byId.notFound].sort()).toEqual([absent, last].sort());
  expect(byId.tooLate).toContain(last);
  const scheduled = randomUUID();
  const bucket = ordering === 'global' ? 0 : bucketOf(LAST, BUCKETS);
  for (const [seq, id] of [last, scheduled].entries())
    await application.query(`insert into outbox_parked (transport, bucket, id, topic, type, state, blocking, seq)
      values (1, ${bucket}, '${id}', 't', 'rare', 1, false, ${seq + 1})`);
  const ofBoth = await operator.cancel({ ids: [last, scheduled] });
  expect([...ofBoth.changed, ...ofBoth.tooLate].sort()).toEqual([last, scheduled].sort());
  expect(ofBoth.tooLate).toContain(last);
  if (ordering === 'key') expect(ofBoth.changed).toEqual([scheduled]);
}

describe.each(DATABASES)('operators behind a backlog on %s', (kind) => {
  describeWith(kind, kind, () => {
    it.each(['key', 'global'] as const)('name what is too late: ordering %s', async (ordering) => {
      const transports = { default: new ScriptedTransport(), other: new ScriptedTransport() };
      const { store, dataSource, close } = await createHarness(kind, { ordering, transports });
      const [uuid, key] = kind === 'postgres' ? ['gen_random_uuid()', 'key'] : ['uuid()', '`key`'];
      const columns = `(transport, bucket, id, topic, ${key}, type)`;
      const bucketed = (bucket: string | number): string | number => (ordering === 'global' ? 0 : bucket);
      try {
        await dataSource.query(
          `insert into outbox_ready ${columns} select 0, ${bucketed(`seq % ${BUCKETS}`)}, ${uuid}, 't', concat('k', seq), 'common'
           from ${series(kind, ROWS)}`,
        );
        const last = randomUUID();
        await dataSource.query(
          `insert into outbox_ready ${columns} values (0, ${bucketed(bucketOf(LAST, BUCKETS))}, '${last}', 't', '${LAST}', 'rare')`,
        );
        await expectNamed(store, last, ordering, dataSource);
      } finally {
        await close();
      }
    });
  });
});
