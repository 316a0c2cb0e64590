import type { PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import type { TakeResult } from '../../../lib/store/parked-store.js';
import { createTransportRelay, gate, leased, loseAndRegain, stored, turn } from '../../support/transport-relay.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe('a relay and what it takes from the parked table', () => {
  it.each([
    ['key', 'a'],
    ['key', null],
    ['none', 'a'],
    ['global', null],
  ] as const)(
    'ordering %s, key %s: takes no row again while it may be written once more that it is free',
    async (ordering, key) => {
      const under = await leased(createTransportRelay({ ordering }));
      const { relay, store, transport, clock } = under;
      const row = { parkedId: '7', bucket: 0, key: ordering === 'global' ? '' : key, state: 'waiting' as const };
      let due = [row];
      let taken = 0;
      store.due = async () => ({ rows: due, nextIn: null });
      store.take = async () => {
        taken += 1;
        due = [];
        return { messages: [stored({ key, parkedId: '7', parkedState: 'waiting' })], clear: [], durable: false };
      };
      store.flush = () => Promise.reject(new Error('not on disk'));
      const written = gate();
      let writes = 0;
      store.repark = async () => {
        due = [row];
        if ((writes += 1) === 1) throw new Error('the answer is lost');
        await written.opened;
        return { fence: undefined, affected: 0 };
      };
      await expect(relay.parkedOnce()).rejects.toThrow('not on disk');
      await turn();
      expect([taken, writes]).toEqual([1, 1]);

      store.flush = async () => undefined;
      if (row.key !== null && ordering !== 'none') relay.parked.continueKey(0, row.key);
      await relay.parkedOnce();
      await clock.advance(1_000);
      await relay.parkedOnce();
      expect([taken, writes]).toEqual([1, 2]);
      written.open();
      await turn();
      await relay.parkedOnce();
      await turn();
      expect(transport.published).toHaveLength(1);
      expect(relay.ledger.unwritten.rows.size + relay.ledger.unwritten.closed.size).toBe(0);
    },
  );

  it('P5: what was marked before the first read is doubted when that comes from another server', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, leases } = under;
    store.due = async () => ({ rows: [{ parkedId: '7', bucket: 0, key: 'a', state: 'waiting' }], nextIn: null });
    const taken = stored({ key: 'a', parkedId: '7', parkedState: 'waiting' });
    store.take = async () => ({ messages: [taken], clear: [], durable: true });
    await relay.parkedOnce();
    await turn();
    store.session = 1; // it has the mark, and not the verdict
    await relay.readOnce();
    await turn();
    expect([...leases.of(0).keys()]).toEqual([1, 2, 3]);
  });

  it('P5: that a key is free is doubted, too: an operator removed what blocked it, and another server has it again', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, leases } = under;
    relay.parked.keys.add(0, 'a');
    relay.parked.continueKey(0, 'a');
    store.take = async () => ({ messages: [], clear: [{ bucket: 0, key: 'a' }], durable: true });
    await relay.parkedOnce();
    expect(relay.parked.keys.has(0, 'a')).toBe(false);
    store.session = 1; // its later messages, which this one shows, would overtake what it has parked
    await relay.readOnce();
    await turn();
    expect([...leases.of(0).keys()]).toEqual([1, 2, 3]);
    expect(relay.open.has(0)).toBe(false);
  });

  it('a key that memory had no place for is blocked while its failure is not written, too', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    store.park = () => new Promise(() => undefined);
    transport.behave = rejected;
    relay.accept([stored({ key: 'a' })]);
    await turn();
    relay.parked.keys.delete(0, 'a');
    relay.parked.keys.overflow = true;
    transport.behave = () => PUBLISHED;
    store.ready = [stored({ key: 'a' })];
    await relay.readOnce();
    await turn();
    expect(transport.published).toEqual([]);
  });

  it.each(['key', 'global'] as const)(
    'ordering %s: nothing that falls due passes a failure that is not written',
    async (ordering) => {
      const under = await leased(createTransportRelay({ ordering }));
      const { relay, store, transport } = under;
      store.ready = [stored({ key: 'a' })];
      const written = gate();
      store.park = async (_owner, _leases, entries) => {
        await written.opened;
        return store.remove(entries);
      };
      transport.behave = rejected;
      await relay.readOnce();
      await turn();
      const key = ordering === 'global' ? '' : 'a';
      store.due = async () => ({ rows: [{ parkedId: '7', bucket: 0, key, state: 'scheduled' }], nextIn: null });
      const take = jest.spyOn(store, 'take');
      await relay.parkedOnce();
      expect(take).not.toHaveBeenCalled();
      written.open();
      await turn();
      await relay.parkedOnce();
      expect(take).toHaveBeenCalled();
    },
  );

  it('a take that is answered after its lease was lost opens no key that the next lease found blocked', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    const answer = gate<TakeResult>();
    store.take = () => answer.opened;
    relay.parked.continueKey(0, 'a');
    const pass = relay.parkedOnce();
    await turn();

    // Another owner parked something of the key, and gave the bucket back.
    store.blockingKeys = async () => [{ bucket: 0, key: 'a', ready: false }];
    await loseAndRegain(under);
    await relay.openBuckets();
    answer.open({ messages: [], clear: [{ bucket: 0, key: 'a' }], durable: true });
    await pass;
    store.ready = [stored({ key: 'a' })];
    await relay.readOnce();
    await turn();
    expect(transport.published).toEqual([]);
  });

  it('what is due of a busy key hides nothing that is due behind it, and is not looked past again and again', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, clock, options } = under;
    const busy = gate<PublishResult>();
    under.transport.behave = () => busy.opened;
    store.ready = [stored({ key: 'busy' })];
    await relay.readOnce();
    const rowOf = (key: string, parkedId: number) =>
      ({ parkedId: String(parkedId), bucket: 0, key, state: 'scheduled' }) as const;
    const rows = Array.from({ length: 3_000 }, (_, i) => rowOf('busy', i));
    const pages: number[] = [];
    store.due = async (_transport, _buckets, limit) => {
      pages.push(limit);
      return { rows: rows.slice(0, limit), nextIn: null };
    };
    const take = jest.spyOn(store, 'take');
    await relay.parkedOnce();
    expect(pages).toEqual([500, 2_000, 8_000]);
    for (let pass = 0; pass < 5; pass += 1) await relay.parkedOnce();
    expect(pages.splice(0)).toHaveLength(8);

    rows.push(rowOf('free', 9_999));
    await clock.advance(options.pollInterval);
    await relay.parkedOnce();
    expect(take.mock.lastCall?.[0].due).toEqual([rowOf('free', 9_999)]);
    busy.open(PUBLISHED);
    await turn();
  });

  it('what waits behind a busy key for a row that is gone meanwhile is asked for', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    const busy = gate<PublishResult>();
    transport.behave = () => busy.opened;
    store.ready = [stored({ key: 'hot' })];
    await relay.readOnce();
    const { due } = store;
    store.due = async () => ({ rows: [{ parkedId: '7', bucket: 0, key: 'hot', state: 'scheduled' }], nextIn: null });
    await relay.parkedOnce();
    store.due = due; // it is cancelled
    store.ready.push(stored({ key: 'hot' }));
    await relay.readOnce();
    busy.open(PUBLISHED);
    await turn();
    const take = jest.spyOn(store, 'take');
    await relay.parkedOnce();
    expect(take.mock.lastCall?.[0]).toMatchObject({ due: [], keys: [{ bucket: 0, key: 'hot' }] });
  });
});
