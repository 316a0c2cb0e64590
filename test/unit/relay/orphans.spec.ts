import type { OutboxMessage, PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import type { RelayUnderTest } from '../../support/transport-relay.js';
import { createTransportRelay, gate, leased, loseAndRegain, stored, turn } from '../../support/transport-relay.js';
import { ScriptedTransport } from '../../support/scripted.js';

const rejected: PublishResult = { ok: false, blame: 'collateral', error: new Error('no') };

/** Waiting rows of bucket 0 in the parked table, each with the epoch that it is being sent under. */
function park({ store }: RelayUnderTest, key: string | null, ...ids: string[]): Map<string, string | null> {
  const rows = new Map<string, string | null>(ids.map((id) => [id, null]));
  const epochNow = (): string => String(store.leases.get(0)?.epoch);
  store.due = async (_transport, buckets) => ({
    rows: [...rows]
      .filter(([, sending]) => buckets.includes(0) && sending !== epochNow())
      .map(([parkedId]) => ({ parkedId, bucket: 0, key, state: 'waiting' })),
    nextIn: null,
  });
  store.take = async ({ due, keys }) => {
    const taken = [...rows.keys()].filter((id) => key !== null || due.some(({ parkedId }) => parkedId === id));
    for (const id of taken) rows.set(id, epochNow());
    const messages = taken.map((id) => stored({ key, parkedId: id, parkedState: 'waiting', seq: id }));
    return { messages, clear: [...keys], durable: true };
  };
  store.repark = async (_owner, leases, entries) => {
    for (const { parkedId } of entries) {
      if (rows.get(parkedId) === leases.find(({ bucket }) => bucket === 0)?.epoch) rows.set(parkedId, null);
    }
    return { fence: undefined, affected: entries.length };
  };
  store.settle = async (_transport, messages) => {
    for (const { parkedId } of messages) rows.delete(parkedId as string);
    return { fence: undefined, affected: messages.length };
  };
  return rows;
}
const parkedIds = (messages: readonly OutboxMessage[]) => messages.map(({ parkedId }) => parkedId);

describe('a parked message whose lease was lost while it was out, and is ours again', () => {
  it('does not unmark its row while a second copy of it is on its way', async () => {
    const under = await leased(createTransportRelay({ batchesInFlight: 1 }));
    const { relay, store, transport } = under;
    const rows = park(under, null, '1');
    const [first, second] = [gate<PublishResult>(), gate<PublishResult>()];
    const results = [first.opened, second.opened];
    transport.behave = () => results.shift() ?? PUBLISHED;
    await relay.parkedOnce();
    await turn();
    await loseAndRegain(under);
    await relay.parkedOnce(); // the second copy: waits for the first one's batch
    expect(relay.room.held).toBe(2);
    const repark = jest.spyOn(store, 'repark');
    first.open(rejected);
    await turn();
    expect([rows.get('1'), repark.mock.calls.length]).toEqual(['2', 0]);
    await relay.parkedOnce();
    await turn();
    expect(transport.attempted).toHaveLength(2);
    second.open(PUBLISHED);
    await turn();
    expect([rows.size, relay.room.held]).toEqual([0, 0]);
  });

  it('is taken at once when its key was closed until then', async () => {
    const under = await leased(createTransportRelay());
    const { relay, transport } = under;
    const rows = park(under, 'k', '1');
    const out = gate<PublishResult>();
    const results = [out.opened];
    transport.behave = () => results.shift() ?? PUBLISHED;
    await relay.parkedOnce();
    await turn();
    await loseAndRegain(under);
    await relay.parkedOnce();
    expect(relay.room.held).toBe(1);
    const parked = jest.fn();
    relay.wakeUps.wake({ within: () => undefined }, { within: parked });
    out.open(rejected);
    await turn();
    expect(parked).toHaveBeenCalledWith(0);
    await relay.parkedOnce();
    await turn();
    expect([parkedIds(transport.published), rows.size, relay.room.held]).toEqual([['1'], 0, 0]);
  });

  it('nor does any message of its run', async () => {
    const under = await leased(createTransportRelay({}, new ScriptedTransport({ atomicRuns: true })));
    const { relay, store, transport } = under;
    const rows = park(under, 'k', '1', '2', '3');
    const out = gate<PublishResult>();
    const results = [out.opened, out.opened, out.opened];
    transport.behave = () => results.shift() ?? PUBLISHED;
    await relay.parkedOnce();
    await turn();
    expect(transport.attempted).toHaveLength(3);
    await loseAndRegain(under);
    await relay.openBuckets();
    const repark = jest.spyOn(store, 'repark');
    out.open(rejected);
    await turn();
    expect([repark.mock.calls.length, relay.flight.batches.size, relay.room.held]).toEqual([0, 0, 0]);
    await relay.parkedOnce();
    await turn();
    expect([parkedIds(transport.published), rows.size]).toEqual([['1', '2', '3'], 0]);
  });
});
