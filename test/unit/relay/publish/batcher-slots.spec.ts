import { PUBLISHED } from '../../../../lib/transports/transport.js';
import { createTransportRelay, gate, stored, turn } from '../../../support/transport-relay.js';
import { ScriptedTransport } from '../../../support/scripted.js';

/** Works on messages one by one, and tells of each when it is through. */
class OneByOne extends ScriptedTransport {
  override readonly receipt = 'handler';
  override readonly maxBatch = 4;
  begun = 0;
  override publish(...[batch, context]: Parameters<ScriptedTransport['publish']>): Promise<void> {
    this.begun += batch.length;
    return super.publish(batch, context);
  }
}

describe('a transport that works on messages one by one', () => {
  it('K7: one that hangs holds its own slot, and not those of its batch', async () => {
    const transport = new OneByOne();
    const hung = gate<typeof PUBLISHED>();
    const messages = Array.from({ length: 16 }, (_, n) => stored({ topic: n % 4 === 0 && n < 8 ? 'hangs' : 't' }));
    transport.behave = ({ topic }) => (topic === 'hangs' ? hung.opened : PUBLISHED);
    const { relay, leases, store, clock } = createTransportRelay({ batchSize: 10, batchesInFlight: 2 }, transport, 1);
    store.ready = messages;
    await leases.runOnce();
    await relay.readOnce();
    for (let i = 0; i < 5; i += 1) {
      await turn();
      await clock.advance(1);
    }
    expect(store.ready).toHaveLength(2);
    expect(transport.begun).toBe(16);
    expect(relay.flight.messages).toBe(2);
    hung.open(PUBLISHED);
  });
});
