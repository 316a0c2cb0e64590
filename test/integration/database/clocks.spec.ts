import { randomUUID } from 'node:crypto';
import type { PublishResult } from '../../../lib/index.js';
import { systemClock } from '../../../lib/time/clock.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { DATABASES, describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe.each(DATABASES)('clocks that are wrong, on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    it.each([
      ['an hour ahead', 3_600_000],
      ['an hour behind', -3_600_000],
    ])('B3: maxAge goes by the database’s clock when that of the relay is %s', async (_name, by) => {
      harness = await createHarness(kind, { retry: { initial: 1, max: 1, maxAttempts: null, maxAge: '10m' } });
      const [old, young] = await harness.enqueue([{}, {}]);
      const interval = kind === 'postgres' ? `interval '11 minutes'` : 'interval 11 minute';
      await harness.dataSource.query(
        `update outbox_ready set created_at = created_at - ${interval} where id = '${old}'`,
      );
      const transport = new ScriptedTransport();
      transport.behave = rejected;
      const clock = { ...systemClock, wall: () => Date.now() + by };
      const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { clock });
      await dispatcher.start();
      await until(() => hooks.of('dead').length > 0 && hooks.of('retried').filter(({ id }) => id === young).length > 3);
      expect(hooks.of('dead').map(({ id }) => id)).toEqual([old]);
    });

    it.each([
      ['an hour ahead', 3_600_000],
      ['an hour behind', -3_600_000],
    ])('B3: leases end by the database’s clock when that of the process is %s', async (_name, by) => {
      harness = await createHarness(kind, { buckets: 1 });
      const left = async (): Promise<number> => {
        const ms =
          kind === 'postgres'
            ? 'extract(epoch from expires_at - clock_timestamp()) * 1000'
            : 'timestampdiff(microsecond, utc_timestamp(6), expires_at) / 1000';
        return Number((await harness.dataSource.query(`select ${ms} as ms from outbox_leases`))[0].ms);
      };
      const { now } = Date;
      const wrong = jest.spyOn(Date, 'now').mockImplementation(() => now() + by);
      try {
        const owner = randomUUID();
        const leaseMs = 1_800_000;
        const leases = await harness.store.leases.acquire({ owner, leaseMs, transport: 0, limit: 1 });
        const acquired = await left();
        expect(await harness.store.leases.renew(owner, leaseMs)).toEqual(
          leases.map(({ crashes: _c, trial: _t, former: _f, ...rest }) => rest),
        );
        for (const each of [acquired, await left()]) {
          expect(each).toBeLessThanOrEqual(leaseMs);
          expect(each).toBeGreaterThan(leaseMs / 2);
        }
      } finally {
        wrong.mockRestore();
      }
    });
  });
});
