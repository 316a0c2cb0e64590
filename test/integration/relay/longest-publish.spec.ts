import type { OutboxOptions } from '../../../lib/index.js';
import { resolveOptions } from '../../../lib/options/resolve.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnEach } from '../../support/services.js';
import { until } from '../../support/until.js';

const LEASE = 10_000;

function isAllowed(publishTimeout: number): boolean {
  const transports = { default: new ScriptedTransport() };
  try {
    resolveOptions({ transports, lease: LEASE, publishTimeout } as OutboxOptions, {});
    return true;
  } catch {
    return false;
  }
}

describeOnEach([], 'the longest publishTimeout', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  async function publishesWith(publishTimeout: number): Promise<void> {
    harness = await createHarness(kind, { buckets: 4, lease: LEASE, publishTimeout });
    const transport = new ScriptedTransport();
    await harness.relay({ default: transport }).dispatcher.start();
    for (let sent = 1; sent <= 5; sent++) {
      await harness.enqueue([{ bucket: sent % 4 }]);
      await until(() => transport.published.length === sent);
    }
  }

  /** A publish begins when the lease is good for all of it: between two renewals that must be so for a while. */
  it('B16: at the longest publishTimeout that the start allows, messages are published', async () => {
    let longest = LEASE;
    while (!isAllowed(longest)) longest--;
    await publishesWith(longest);
  });

  it('so they are with a short one', () => publishesWith(500));
});
