import type { OutboxMessage, PublishResult } from '../../../lib/index.js';
import { createTransportRelay, leased, loseAndRegain, stored, turn } from '../../support/transport-relay.js';

const seqs = (messages: readonly { seq: string }[]) => messages.map(({ seq }) => seq);
const damaged = () => Object.assign(new Error('missing chunk'), { code: 'XX001' });
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

/** A relay in which `first` fails, so that `damagedOne` of its key has to be parked behind it, and cannot be. */
async function withOneAside() {
  const under = await leased(createTransportRelay());
  const { relay, store, transport } = under;
  const [first, damagedOne, behind] = [1, 2, 3].map(() => stored({ key: 'a' })) as [
    OutboxMessage,
    OutboxMessage,
    OutboxMessage,
  ];
  store.ready = [first, damagedOne, behind];
  const { park } = store;
  const broken = new Set([damagedOne.seq]);
  const parked: string[] = [];
  store.park = async (owner, leases, entries) => {
    if (entries.some(({ seq }) => broken.has(seq))) throw damaged();
    parked.push(...seqs(entries));
    return park(owner, leases, entries);
  };
  transport.behave = (message) => (message.seq === first.seq ? rejected() : { ok: true });
  await relay.readOnce();
  await turn();
  expect([parked, relay.settler.transitions.quarantined]).toEqual([[first.seq], 2]);
  return { ...under, first, damagedOne, behind, broken, parked };
}

describe('a relay with a message that cannot be parked', () => {
  it('D8: a hand-over does not wait for it; the next owner, also when that is itself, reads it again, in order', async () => {
    const under = await withOneAside();
    const { relay, store, damagedOne, behind, clock } = under;
    await relay.drain([0]);
    expect([relay.settler.transitions.quarantined, relay.room.held, relay.reader.known.size]).toEqual([0, 0, 0]);
    expect([relay.ledger.unwritten.pending.size, clock.nextIn ?? Infinity]).toEqual([0, Infinity]);
    await loseAndRegain(under);
    await relay.readOnce();
    await turn();
    expect(seqs(under.transport.published)).toEqual(seqs([damagedOne, behind]));
    expect(store.ready).toEqual([]);
  });

  it('D8: while it is not written nothing asks again and again for its key, and nothing of it overtakes', async () => {
    const { relay, loops, store, damagedOne, behind, broken, parked, clock } = await withOneAside();
    const later = stored({ key: 'a' });
    store.ready.push(later);
    await relay.readOnce();
    await turn();
    relay.parked.continueKey(0, 'a'); // what stood before it is published
    await relay.parkedOnce();
    expect([relay.parked.toContinue.size, relay.parked.keys.has(0, 'a')]).toEqual([0, true]);
    await loops.runPass();
    expect(relay.settler.transitions.quarantined).toBe(3);
    broken.clear();
    await clock.advance(1_000);
    await turn();
    expect(parked.slice(1)).toEqual(seqs([damagedOne, behind, later]));
    expect([...relay.parked.toContinue.keys()]).toEqual(['a']);
    expect([relay.room.held, relay.reader.known.size, relay.ledger.unwritten.pending.size]).toEqual([0, 0, 0]);
  });

  it('D8: takes no room from the others', async () => {
    const { relay, options } = await withOneAside();
    expect([relay.room.held, relay.room.left]).toEqual([2, options.batchSize * (options.batchesInFlight + 2)]);
  });

  it('D8: nor do published ones that cannot be settled', async () => {
    const { relay, store, options, transport } = await leased(createTransportRelay());
    store.ready = [1, 2].map(() => stored());
    store.settle = () => Promise.reject(damaged());
    await relay.readOnce();
    await turn();
    expect([transport.published.length, relay.settler.successes.quarantined, relay.room.held]).toEqual([2, 2, 2]);
    expect([relay.room.left, relay.room.empty]).toEqual([options.batchSize * (options.batchesInFlight + 2), true]);
  });

  it('D8: what is parked keeps its place: its own transitions do not wait behind it', async () => {
    const { relay, store, first } = await withOneAside();
    const repark = jest.spyOn(store, 'repark');
    const again = stored({ ...first, parkedId: '1', parkedState: 'waiting', attempts: 1 });
    relay.accept([again]);
    await turn();
    expect(repark).toHaveBeenCalledTimes(1);
  });
});
