import { PUBLISHED } from '../../../../lib/transports/transport.js';
import { createTransportRelay, gate, stored, turn } from '../../../support/transport-relay.js';
import { ScriptedTransport } from '../../../support/scripted.js';

/** For brokers that know who owns a bucket, and can refuse who does not. */
class PerBucket extends ScriptedTransport {
  override readonly perBucket = true;
  readonly batches: string[] = [];
  override publish(...[batch, context]: Parameters<ScriptedTransport['publish']>): Promise<void> {
    this.batches.push(batch.map(({ bucket }) => bucket).join(' '));
    return super.publish(batch, context);
  }
}

describe('a transport that wants one bucket in a batch', () => {
  it('gets that, and no second batch of a bucket before the first is through', async () => {
    const transport = new PerBucket();
    const answer = gate<typeof PUBLISHED>();
    transport.behave = () => answer.opened;
    const { relay, leases, store } = createTransportRelay({ batchSize: 2 }, transport, 2);
    store.ready = [0, 1, 0, 0, 1].map((bucket) => stored({ bucket }));
    await leases.runOnce();
    await relay.readOnce();
    await turn();
    expect(transport.batches).toEqual(['0 0', '1 1']);
    answer.open(PUBLISHED);
    await turn();
    expect(transport.batches).toEqual(['0 0', '1 1', '0']);
    expect(relay.batcher.bucketsOut.size).toBe(0);
  });
});
