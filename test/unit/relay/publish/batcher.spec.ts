import { PUBLISHED } from '../../../../lib/transports/transport.js';
import { createTransportRelay, gate, stored, turn } from '../../../support/transport-relay.js';
import { ScriptedTransport } from '../../../support/scripted.js';

class Batches extends ScriptedTransport {
  /** The buckets of each. */
  readonly seen: string[] = [];
  override publish(...[batch, context]: Parameters<ScriptedTransport['publish']>): Promise<void> {
    this.seen.push(batch.map(({ bucket }) => bucket).join(' '));
    return super.publish(batch, context);
  }
}

describe('the batches of a transport', () => {
  it('that wants one bucket in each have that, and none of a bucket begins before the one before it is through', async () => {
    const transport = Object.assign(new Batches(), { perBucket: true });
    const answer = gate<typeof PUBLISHED>();
    transport.behave = () => answer.opened;
    const { relay, leases, store } = createTransportRelay({ batchSize: 2 }, transport, 2);
    store.ready = [0, 1, 0, 0, 1].map((bucket) => stored({ bucket }));
    await leases.runOnce();
    await relay.readOnce();
    await turn();
    expect(transport.seen).toEqual(['0 0', '1 1']);
    answer.open(PUBLISHED);
    await turn();
    expect(transport.seen).toEqual(['0 0', '1 1', '0']);
    expect(relay.batcher.bucketsOut.size).toBe(0);
  });

  it('K7: that works on messages one by one: one that hangs holds its own slot, and not those beside it', async () => {
    const transport = Object.assign(new Batches(), { receipt: 'handler', maxBatch: 4 });
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
    expect(transport.seen.join(' ').split(' ')).toHaveLength(16);
    expect(relay.flight.messages).toBe(2);
    hung.open(PUBLISHED);
  });
});
