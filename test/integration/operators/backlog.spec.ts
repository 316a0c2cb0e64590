import { randomUUID } from 'node:crypto';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import type { OutboxStore } from '../../../lib/store/outbox-store.js';
import { series } from '../../support/databases.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { operatorOf } from '../../support/operator.js';
import { PostgresFixture, SETTINGS } from '../../support/postgres-store.js';
import { describeWith, describeOnMysqlFamily } from '../../support/services.js';

const ROWS = 400_000;
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
    await store.leases.acquire({ owner: randomUUID(), transport, leaseMs: 3_600_000, limit: SETTINGS.buckets });
  const operator = operatorOf(store, { buckets: SETTINGS.buckets, ordering });
  const absent = randomUUID();
  const byId = await operator.cancel({ ids: [absent, last] });
  expect([...byId.tooLate, ...byId.notFound].sort()).toEqual([absent, last].sort());
  expect(byId.tooLate).toContain(last);
  const scheduled = randomUUID();
  const bucket = ordering === 'global' ? 0 : bucketOf(LAST, SETTINGS.buckets);
  for (const [seq, id] of [last, scheduled].entries())
    await application.query(`insert into outbox_parked (transport, bucket, id, topic, type, state, blocking, seq)
      values (1, ${bucket}, '${id}', 't', 'rare', 1, false, ${seq + 1})`);
  const ofBoth = await operator.cancel({ ids: [last, scheduled] });
  expect([...ofBoth.changed, ...ofBoth.tooLate].sort()).toEqual([last, scheduled].sort());
  expect(ofBoth.tooLate).toContain(last);
  if (ordering === 'key') expect(ofBoth.changed).toEqual([scheduled]);
}

describeWith('postgres', 'PostgreSQL operators behind a backlog', () => {
  it.each(['key', 'global'] as const)('name what is too late: ordering %s', async (ordering) => {
    const fixture = await new PostgresFixture().start();
    try {
      const store = fixture.store({ ordering });
      await store.setup.create({ ...SETTINGS, ordering });
      await store.setup.registerTransports(['default', 'other'], 'default');
      const { buckets } = SETTINGS;
      await fixture.application.query(
        `insert into outbox_ready (transport, bucket, id, topic, key, type)
         select 0, ${ordering === 'global' ? 0 : `g % ${buckets}`}, gen_random_uuid(), 't', 'k' || g, 'common' from generate_series(1, ${ROWS}) g`,
      );
      const last = randomUUID();
      await fixture.application.query(
        `insert into outbox_ready (transport, bucket, id, topic, key, type) values (0, $1, $2, 't', $3, 'rare')`,
        [ordering === 'global' ? 0 : bucketOf(LAST, buckets), last, LAST],
      );
      await expectNamed(store, last, ordering, fixture.application);
    } finally {
      await fixture.stop();
    }
  });
});

describeOnMysqlFamily('operators behind a backlog', (kind) => {
  it.each(['key', 'global'] as const)('name what is too late: ordering %s', async (ordering) => {
    const stores = new MariaDbStores(kind, { ordering, buckets: SETTINGS.buckets });
    await stores.start();
    const store = stores.open();
    try {
      await store.setup.registerTransports(['default', 'other'], 'default');
      const columns = '(transport, id, topic, `key`, type)';
      await stores.application.query(
        `insert into outbox_ready ${columns} select 0, uuid(), 't', concat('k', seq), 'common' from ${series(kind, ROWS)}`,
      );
      const last = randomUUID();
      await stores.application.query(`insert into outbox_ready ${columns} values (0, ?, 't', ?, 'rare')`, [
        last,
        Buffer.from(LAST),
      ]);
      await expectNamed(store, last, ordering, stores.application);
    } finally {
      await store.close();
      await stores.stop();
    }
  });
});
