import type { OutboxMessage } from '../../../lib/outbox-message.js';
import type { PublishResult } from '../../../lib/transports/transport.js';
import { createLane, leased, loseAndRegain, stored, turn } from '../../support/lane.js';

const seqs = (messages: readonly { seq: string }[]) => messages.map(({ seq }) => seq);
const damaged = () => Object.assign(new Error('missing chunk'), { code: 'XX001' });
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

/** A lane in which `first` fails, so that `damagedOne` of its key has to be parked behind it, and cannot be. */
async function withOneAside() {
  const under = await leased(createLane());
  const { lane, store, transport } = under;
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
  await lane.readOnce();
  await turn();
  expect([parked, lane.settler.transitions.aside.size]).toEqual([[first.seq], 2]);
  return { ...under, first, damagedOne, behind, broken, parked };
}

describe('a lane with a message that cannot be parked', () => {
  it('D8: a hand-over does not wait for it; the next owner, also when that is itself, reads it again, in order', async () => {
    const under = await withOneAside();
    const { lane, store, damagedOne, behind, clock } = under;
    await lane.drain([0]);
    expect([lane.settler.transitions.aside.size, lane.room.held, lane.claimer.known.size]).toEqual([0, 0, 0]);
    expect([lane.parked.pending.size, clock.nextIn ?? Infinity]).toEqual([0, Infinity]);
    await loseAndRegain(under);
    await lane.readOnce();
    await turn();
    expect(seqs(under.transport.published)).toEqual(seqs([damagedOne, behind]));
    expect(store.ready).toEqual([]);
  });

  it('D8: while it is not written nothing asks again and again for its key, and nothing of it overtakes', async () => {
    const { lane, loops, store, damagedOne, behind, broken, parked, clock } = await withOneAside();
    const later = stored({ key: 'a' });
    store.ready.push(later);
    await lane.readOnce();
    await turn();
    lane.parked.continueKey(0, 'a'); // what stood before it is published
    await lane.parkedOnce();
    expect([lane.parked.toContinue.size, lane.parked.keys.has(0, 'a')]).toEqual([0, true]);
    await loops.runPass();
    expect(lane.settler.transitions.aside.size).toBe(3);
    broken.clear();
    await clock.advance(1_000);
    await turn();
    expect(parked.slice(1)).toEqual(seqs([damagedOne, behind, later]));
    expect([...lane.parked.toContinue.keys()]).toEqual(['a']);
    expect([lane.room.held, lane.claimer.known.size, lane.parked.pending.size]).toEqual([0, 0, 0]);
  });

  it('D8: takes no room from the others', async () => {
    const { lane, options } = await withOneAside();
    expect([lane.room.held, lane.room.left]).toEqual([2, options.batchSize * (options.batchesInFlight + 2)]);
  });

  it('D8: nor do published ones that cannot be settled', async () => {
    const { lane, store, options, transport } = await leased(createLane());
    store.ready = [1, 2].map(() => stored());
    store.settle = () => Promise.reject(damaged());
    await lane.readOnce();
    await turn();
    expect([transport.published.length, lane.settler.successes.aside.size, lane.room.held]).toEqual([2, 2, 2]);
    expect([lane.room.left, lane.room.empty]).toEqual([options.batchSize * (options.batchesInFlight + 2), true]);
  });

  it('D8: what is parked keeps its place: its own transitions do not wait behind it', async () => {
    const { lane, store, first } = await withOneAside();
    const repark = jest.spyOn(store, 'repark');
    const again = stored({ ...first, parkedId: '1', parkedState: 'waiting', attempts: 1 });
    lane.accept([again]);
    await turn();
    expect(repark).toHaveBeenCalledTimes(1);
  });
});
