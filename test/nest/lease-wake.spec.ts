import { OutboxDispatcher, OutboxModule, type OutboxDispatcher as Dispatcher } from '../../lib/index.js';
import { createHarness, ScriptedTransport, type Harness } from '../support/relay.js';
import { describeWith } from '../support/services.js';
import {
  Applications,
  build,
  CollectingTransport,
  quiet,
  signalsOnly,
  typeOrm,
  until,
  withoutPolls,
} from './support/app.js';

/** Neither a look nor a heartbeat comes in the time of a test: what is done was told. */
const NEVER = { pollInterval: 60_000, lease: 3_600_000 };

describeWith('postgres', 'B17: an application, and a relay of another process that comes and goes', () => {
  const applications = new Applications();
  let harness: Harness;
  let application: Dispatcher;
  let peer: Dispatcher;
  let told: number;
  const buckets = (dispatcher: Dispatcher): number => dispatcher.status().transports[0]?.buckets.length ?? 0;
  const shares = (ofApplication: number, ofPeer: number) => () =>
    buckets(application) === ofApplication && buckets(peer) === ofPeer;

  beforeEach(async () => {
    harness = await createHarness('postgres');
    const options = quiet({ transports: { default: new CollectingTransport() }, ...NEVER });
    const outbox = OutboxModule.forRoot(options);
    const started = await applications.start(withoutPolls(build([typeOrm(harness.database), outbox])));
    application = started.get(OutboxDispatcher);
    const leasesChanged = (): void => void relay.store.notify?.('leases').catch(() => undefined);
    const relay = harness.relay({ default: new ScriptedTransport() }, NEVER, {
      leasesChanged,
      hears: () => true,
      clock: signalsOnly,
    });
    peer = relay.dispatcher;
    told = 0;
    const heard = (where?: string): void => {
      if (where !== 'leases') return;
      told += 1;
      peer.lookAtLeases();
    };
    await relay.store.listen?.(heard, () => undefined);
    await until(() => buckets(application) === 32);
  });
  afterEach(async () => {
    await applications.close();
    await harness.close();
  });

  it('shares its buckets at once with one that comes, and has them all again when it leaves', async () => {
    await peer.start();
    await until(shares(16, 16));
    await peer.stop();
    await until(shares(32, 0));
  });

  it('leaves its buckets to the other at once when it is closed', async () => {
    await peer.start();
    await until(shares(16, 16));
    await applications.close();
    await until(shares(0, 32));
  });

  it('tells nothing while nothing changes', async () => {
    await peer.start();
    await until(shares(16, 16));
    // What both did is told by the end of their next pass, and heard before a word that follows it.
    for (const each of [application, peer, application, peer]) await each.leaseLoop?.runNow();
    const sofar = told;
    await peer.deps.store.notify?.('leases');
    await until(() => told > sofar);
    for (const each of [application, peer]) await each.leaseLoop?.runNow();
    const before = told;
    for (const each of [application, peer, application, peer]) {
      each.lookAtLeases();
      await each.leaseLoop?.runNow();
    }
    await peer.deps.store.notify?.('leases');
    await until(() => told > before);
    expect(told).toBe(before + 1);
  });
});
