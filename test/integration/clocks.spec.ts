import { systemClock } from '../../lib/dispatch/clock.js';
import type { PublishResult } from '../../lib/publish/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../support/relay.js';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe.each(['postgres', 'mariadb'] as const)('the age of a message on %s', (kind) => {
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
  });
});
