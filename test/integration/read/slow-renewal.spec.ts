import type { OutboxHealth } from '../../../lib/index.js';
import { createHarness, ScriptedTransport } from '../../support/relay.js';
import { describeWith, DATABASES, dialectOf } from '../../support/services.js';
import { until } from '../../support/until.js';
import { textsOf } from '../../support/reasons.js';

/** Milliseconds: of a lease of 10 s a publish needs 9. */
const OPTIONS = { buckets: 4, lease: 10_000, publishTimeout: 2_000, pollInterval: 100 };
const SLOW = {
  postgres: [
    `create function outbox_slow() returns trigger language plpgsql as $$ begin perform pg_sleep(1.5); return null; end $$`,
    'create trigger outbox_slow before update on outbox_leases for each statement execute function outbox_slow()',
  ],
  mysql: ['create trigger outbox_slow before update on outbox_leases for each row do sleep(0.4)'],
};
const FAST = { postgres: 'drop trigger outbox_slow on outbox_leases', mysql: 'drop trigger outbox_slow' };

describe.each(DATABASES)('E15: a relay on %s that renews its leases too slowly', (kind) => {
  describeWith(kind, kind, () => {
    it('says why nothing goes out, and goes on when the database is faster', async () => {
      const harness = await createHarness(kind, OPTIONS);
      try {
        const transport = new ScriptedTransport();
        const { dispatcher } = harness.relay({ default: transport });
        const health = (): Promise<OutboxHealth> => harness.health(dispatcher);
        await dispatcher.start();
        await harness.enqueue([{ key: 'before' }]);
        await until(() => transport.published.length === 1);
        for (const sql of SLOW[dialectOf(kind)]) await harness.dataSource.query(sql);
        await until(async () => (await health()).status === 'degraded');
        expect(textsOf(await health())).toEqual([
          expect.stringMatching(/^Renewing the leases took \d+m?s\. That leaves no time to publish in/),
        ]);
        await harness.enqueue([{ key: 'behind' }]);
        await harness.dataSource.query(FAST[dialectOf(kind)]);
        await until(async () => transport.published.length === 2 && (await health()).status === 'up');
      } finally {
        await harness.close();
      }
    });
  });
});
