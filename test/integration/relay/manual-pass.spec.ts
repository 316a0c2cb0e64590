import { FakeClock } from '../../../lib/testing/fake-clock.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnEach } from '../../support/services.js';

describeOnEach([], 'a pass of a relay that is not started', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  it('L11: renews its leases: it publishes all that is ready, for as long as one lease, and gives them back', async () => {
    // Unless it is renewed, a lease is good for publishes during its first two seconds.
    harness = await createHarness(kind, { lease: '60s', publishTimeout: '51s', buckets: 4 });
    const transport = new ScriptedTransport();
    const clock = new FakeClock();
    const { dispatcher } = harness.relay({ default: transport }, {}, { clock });
    // One key: one message after the other, and time passes with each. It stands still while the database renews.
    transport.behave = async () => {
      await clock.advance(100);
      await dispatcher.leaseLoop?.active;
      return PUBLISHED;
    };
    await harness.enqueue(Array.from({ length: 40 }, () => ({ key: 'k' })));
    expect(await dispatcher.runOnce()).toMatchObject({ published: 40 });
    expect(await harness.count('ready')).toBe(0);
    const [{ n }] = await harness.dataSource.query('select count(*) as n from outbox_leases where owner is not null');
    expect(Number(n)).toBe(0);
  });
});
