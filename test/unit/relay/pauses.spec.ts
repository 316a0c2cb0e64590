import type { PublishResult } from '../../../lib/index.js';
import { OutboxMessage } from '../../../lib/outbox-message.js';
import type { Pause } from '../../../lib/store/pauses/pause-store.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createRowLockRelay } from '../../support/row-lock-relay.js';
import { createTransportRelay, gate, leased, stored, turn } from '../../support/transport-relay.js';

const pause = (fields: Partial<Pause> = {}): Pause => ({
  ...{ transport: 0, topic: null, key: null, since: new Date(1), actor: 'ann', reason: 'wrong prices' },
  ...fields,
});
const down = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('gone') });
const seqs = (messages: readonly OutboxMessage[]): string[] => messages.map(({ seq }) => seq);

describe('a pause of a transport', () => {
  it('holds back what a read brings that was under way when it began, and gives it in order afterwards', async () => {
    const { relay, store, transport, leases } = await leased(createTransportRelay());
    store.ready = [stored({ key: 'a' }), stored({ key: 'a' }), stored({ key: 'a' })];
    const inOrder = seqs(store.ready);
    const { fetch } = store;
    store.fetch = async (request) => {
      const result = await fetch(request);
      leases.pauses.heard([pause()]);
      return result;
    };
    await relay.readOnce();
    await turn();
    expect(transport.attempted).toEqual([]);
    store.fetch = fetch;
    await relay.readOnce();
    expect(relay.ledger.held).toBe(0);
    leases.pauses.heard([]);
    for (let pass = 0; pass < 4; pass += 1) {
      await relay.readOnce();
      await turn();
    }
    expect(seqs(transport.published)).toEqual(inOrder);
  });

  it('tries nothing alone that was out with others when it began', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport, leases } = under;
    store.ready = [stored({ key: 'a' }), stored({ key: 'b' })];
    const out = gate<PublishResult>();
    transport.behave = () => out.opened;
    await relay.readOnce();
    await turn();
    const tried = transport.attempted.length;
    leases.pauses.heard([pause()]);
    out.open({ ...down(), suspect: 'message' } as PublishResult);
    for (let i = 0; i < 5; i += 1) await turn();
    expect([transport.attempted.length, relay.ledger.held]).toEqual([tried, 0]);
  });

  it('takes nothing parked, and gives back what a take brings that was under way', async () => {
    const { relay, store, transport, leases } = await leased(createTransportRelay());
    const row = new OutboxMessage({ ...stored({ key: null }), parkedId: '7' });
    store.due = async () =>
      ({ rows: [{ parkedId: '7', bucket: row.bucket, key: null, seq: row.seq }], nextIn: null }) as never;
    const reparked: string[] = [];
    store.repark = async (_owner, _leases, entries) => {
      reparked.push(...entries.map(({ parkedId }) => parkedId));
      return { fence: undefined, affected: entries.length };
    };
    let takes = 0;
    store.take = async () => {
      takes += 1;
      leases.pauses.heard([pause()]);
      return { messages: [row], clear: [], durable: true };
    };
    await relay.parkedOnce();
    await turn();
    expect([takes, transport.attempted.length, reparked]).toEqual([1, 0, ['7']]);
    await relay.parkedOnce();
    expect(takes).toBe(1);
  });

  it('is told once, with its end, and only of the transport that it is of', async () => {
    const { leases, hooks } = await leased(createTransportRelay());
    leases.pauses.heard([pause(), pause({ transport: 1 })]);
    leases.pauses.heard([pause({ transport: 1 }), pause()]);
    const told = {
      transport: 'default',
      topic: null,
      key: null,
      by: 'ann',
      reason: 'wrong prices',
      since: new Date(1),
    };
    expect([hooks.of('paused'), hooks.of('resumed')]).toEqual([[told], []]);
    leases.pauses.heard([pause({ since: new Date(2) })]); // ended, and begun again
    expect([hooks.of('paused').length, hooks.of('resumed')]).toEqual([2, [told]]);
    leases.pauses.heard([pause({ topic: 't' }), pause({ key: 'k' }), pause({ transport: 1 })]);
    expect(hooks.of('resumed')).toHaveLength(2);
    expect(leases.pauses.isPaused(0)).toBe(false);
    expect(hooks.of('paused').slice(2)).toMatchObject([
      { topic: 't', key: null },
      { topic: null, key: 'k' },
    ]);
    leases.pauses.heard([pause({ key: 'k' })]);
    expect(hooks.of('resumed').slice(2)).toMatchObject([{ topic: 't', key: null }]);
  });

  it('lets a connection end an outage, as nothing may be published that could', async () => {
    const { relay, store, transport, leases, clock } = await leased(createTransportRelay());
    store.ready = [stored({ key: 'a' })];
    transport.behave = down;
    await relay.readOnce();
    await turn();
    expect(relay.outage.circuit.state).toBe('open');
    const { length } = transport.attempted;
    leases.pauses.heard([pause()]);
    await clock.advance(5_000);
    await relay.readOnce();
    expect([relay.outage.circuit.state, transport.attempted.length]).toEqual(['closed', length]);
  });
});

describe('a pause, with row locks', () => {
  it('begins no further batch of the rows that are locked', async () => {
    const { relay, stub, transport } = createRowLockRelay({ batchSize: 2 });
    stub.ready = [stored(), stored(), stored(), stored()];
    for (const message of stub.ready) relay.trial.markAlone(message);
    transport.behave = () => {
      relay.deps.leases.pauses.heard([pause()]);
      return PUBLISHED;
    };
    await relay.runPass();
    expect([transport.attempted.length, stub.ready.length]).toEqual([1, 3]);
    relay.deps.leases.pauses.heard([]);
    transport.behave = () => PUBLISHED;
    for (let pass = 0; pass < 4; pass += 1) await relay.runPass();
    expect(stub.ready).toEqual([]);
  });
});
