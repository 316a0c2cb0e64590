import type { OutboxMessage, PublishContext, PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createTransportRelay, leased, stored } from '../../support/transport-relay.js';
import { ScriptedTransport } from '../../support/scripted.js';

const silence = (): Promise<PublishResult> => new Promise(() => undefined);

/** Runs the loops for as many seconds of the fake clock, with renewals. */
function runs({ clock, leases }: Awaited<ReturnType<typeof leased>>) {
  return async (count: number): Promise<void> => {
    for (let i = 0; i < count; i += 1) {
      await clock.advance(1_000);
      if (i % 3 === 0) await leases.runOnce();
    }
  };
}

class Breaking extends ScriptedTransport {
  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<void> {
    if (batch.some(({ key }) => key === 'a')) throw new Error('the connection broke');
    await super.publish(batch, context);
  }
}

describe('probes of a broker', () => {
  it.each([1, 4])(
    'C2: one message that breaks its connection is not every probe: the other keys of its bucket go on (%d buckets)',
    async (buckets) => {
      const under = await leased(createTransportRelay({}, new Breaking(), buckets));
      under.store.ready = [stored({ key: 'a' }), stored({ key: 'a' }), stored({ key: 'b' }), stored({ key: 'c' })];
      under.loops.start();
      await runs(under)(600);
      expect(under.transport.published.map(({ key }) => key).sort()).toEqual(['b', 'c']);
    },
  );

  it('C2: one that is never confirmed is not every probe', async () => {
    const under = await leased(createTransportRelay());
    const { relay, loops, store, transport } = under;
    const seconds = runs(under);
    transport.behave = ({ key }) => (key === 'a' ? silence() : PUBLISHED);
    store.ready = [stored({ key: 'a' })];
    loops.start();
    await seconds(40);
    expect(relay.outage.circuit.state).not.toBe('closed');
    store.ready.push(stored({ key: 'b' }), stored({ key: 'c' }));
    await seconds(600);
    expect(transport.published.map(({ key }) => key).sort()).toEqual(['b', 'c']);
  });

  it('take the first of a key only, and read again what they did not take', async () => {
    const under = await leased(createTransportRelay({ batchSize: 5 }));
    const { relay, loops, store, transport } = under;
    store.ready = Array.from({ length: 40 }, (_, n) => stored({ key: `k${n % 4}` }));
    const order = store.ready.map(({ key, id }) => [key, id]);
    transport.behave = () => ({ ok: false, blame: 'transport', error: new Error('away') });
    loops.start();
    await runs(under)(30);
    expect(relay.outage.circuit.state).not.toBe('closed');
    transport.behave = () => PUBLISHED;
    await runs(under)(60);
    for (const key of ['k0', 'k1', 'k2', 'k3']) {
      const seen = transport.published.filter((message) => message.key === key).map(({ id }) => id);
      expect(seen).toEqual(order.filter(([of]) => of === key).map(([, id]) => id));
    }
  });

  it.each([1, 4])(
    'C16: no circuit closes while all destinations are away, though other buckets are empty (messages in %d of 4)',
    async (of) => {
      const under = await leased(createTransportRelay());
      under.transport.behave = () => ({
        ok: false,
        blame: 'transport',
        suspect: 'destination',
        error: new Error('no leader'),
      });
      under.store.ready = Array.from({ length: 2_000 }, (_, n) => stored({ key: `k${n}`, bucket: n % of }));
      under.loops.start();
      await runs(under)(60);
      expect(under.hooks.of('circuitClosed')).toHaveLength(0);
    },
  );
});

describe('a broker that asked to wait', () => {
  it('C4: and whose connection is destroyed over a message that is put off, is asked again', async () => {
    const under = await leased(createTransportRelay());
    const { relay, loops, store, transport } = under;
    const seconds = runs(under);
    const silent = stored({ key: 'silent', bucket: 1 });
    transport.behave = ({ key }) => (key === 'silent' ? silence() : PUBLISHED);
    const isSuspected = (): boolean => relay.trial.failsAlone(silent);
    store.ready = [silent];
    loops.start();
    for (let n = 0; n < 600 && !isSuspected(); n += 1) {
      await seconds(1);
      store.ready.push(stored({ key: `other ${n}`, bucket: 2 }));
    }
    for (let n = 0; n < 60 && relay.flight.messages === 0; n += 1) await seconds(1);
    expect([isSuspected(), relay.flight.messages, relay.outage.circuit.state]).toEqual([true, 1, 'closed']);
    relay.outage.transportState('blocked', 'memory alarm');
    const { resets } = transport;
    await seconds(60); // its time is up: the connection is destroyed, and nobody will ever say `up` of it
    expect(transport.resets).toBeGreaterThan(resets);
    const after = stored({ key: 'after', bucket: 2 });
    store.ready.push(after);
    await seconds(600);
    expect(transport.published.map(({ id }) => id)).toContain(after.id);
  });

  it('C4: is asked again, too, when a classifier calls the time-out the message’s', async () => {
    const under = await leased(createTransportRelay({ retry: { classify: () => 'message' as const } }));
    const { relay, loops, store, transport } = under;
    const seconds = runs(under);
    transport.behave = silence;
    store.ready = [stored()];
    loops.start();
    await seconds(2);
    expect(relay.flight.messages).toBe(1);
    relay.outage.transportState('blocked', 'memory alarm');
    await seconds(60);
    transport.behave = () => PUBLISHED;
    store.ready.push(stored());
    await seconds(300);
    expect(transport.published).toHaveLength(1);
  });
});
