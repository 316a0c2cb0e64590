import { createTransportRelay, stored, turn } from '../../../support/transport-relay.js';
import { ScriptedTransport } from '../../../support/scripted.js';

class Batches extends ScriptedTransport {
  readonly sizes: number[] = [];
  override publish(...[batch, context]: Parameters<ScriptedTransport['publish']>): Promise<void> {
    this.sizes.push(batch.length);
    return super.publish(batch, context);
  }
}

describe('the bytes of a batch', () => {
  it('end it with the message that reaches the bound; one alone may be larger', async () => {
    const transport = new Batches();
    const { relay, leases, store } = createTransportRelay({ batchBytes: 1_024, batchesInFlight: 4 }, transport, 1);
    store.ready = [400, 400, 400, 2_000, 400, 400].map((length) => stored({ body: 'x'.repeat(length) }));
    await leases.runOnce();
    await relay.readOnce();
    await turn();
    expect(transport.sizes.sort()).toEqual([1, 2, 3]); // begun side by side
  });
});
