import { ParkedKeys } from '../../../../lib/relay/order/parked-keys.js';
import type { DueRow, KeyInBucket } from '../../../../lib/store/parked-store.js';
import { createReader, POLL } from '../../../support/parked-reader.js';
import { createTransportRelay, gate, leased, stored, turn } from '../../../support/transport-relay.js';

const scheduled = (count: number): DueRow[] =>
  Array.from({ length: count }, (_, i) => ({ parkedId: String(i), bucket: 0, key: `k${i}`, state: 'scheduled' }));

describe('parked messages and the keys that go on', () => {
  it.each(['answer', 'error'] as const)(
    'P7: what was marked under a lease that a failover lost, by its late %s, is taken again under another epoch',
    async (end) => {
      const { reader, store, due, closed, epochs, uncertain, pass } = createReader();
      due.push(...scheduled(1));
      const { take } = store;
      store.take = async (request) => {
        closed.add(0); // the lease is lost, and had again, before the answer comes
        if (end === 'error') throw new Error('connection lost');
        return take(request);
      };
      await pass().catch(() => undefined);
      uncertain.length = 0;
      closed.delete(0);
      reader.opened([0]); // the new server gave out the same number
      expect(uncertain).toEqual([0]);
      reader.opened([0]);
      expect(uncertain).toEqual([0]);
      closed.add(0);
      due.push(...scheduled(1));
      await pass().catch(() => undefined);
      uncertain.length = 0;
      epochs.set(0, '2');
      reader.opened([0]);
      expect(uncertain).toEqual([]);
    },
  );

  it('many keys whose rows in front were deleted, with nothing behind them, are free within two polls', async () => {
    const { reader, store, blocking, asked, clock, pass } = createReader();
    const names = Array.from({ length: 5_000 }, (_, i) => `k${i}`);
    for (const key of names) reader.keys.add(0, key);
    blocking.push({ bucket: 0, key: 'k4999', ready: false });
    const among = jest.spyOn(store, 'blockedAmong');
    const last = 'k4998';
    for (let passes = 0; passes < 40 && reader.keys.has(0, last); passes += 1) {
      await pass();
      if (passes === 20) await clock.advance(POLL);
    }
    expect([reader.keys.has(0, last), reader.keys.has(0, 'k4999')]).toEqual([false, true]);
    expect(among.mock.calls.length).toBeLessThanOrEqual(2);
    expect(asked.length).toBeLessThan(20);
    for (let i = 0; i < 3; i += 1) {
      await clock.advance(POLL);
      await pass();
    }
    expect(reader.keys.size).toBe(1);
  });
});

describe('more blocked keys than fit into memory', () => {
  const names = Array.from({ length: 10 }, (_, i) => `k${i}`);

  it('those that are asked for do not push out others of the same read, which would overtake', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    const { keys } = relay.parked;
    Object.assign(keys, { limit: names.length / 2 });
    for (const key of names) keys.addBeyond(0, key);
    keys.overflow = true;
    store.blockedAmong = async (_transport, among) => [...among];
    store.ready = ['k0', 'x1', 'x2', 'k1', 'x3'].map((key) => stored({ key }));
    await relay.readOnce();
    await turn();
    expect(transport.published).toEqual([]);
    expect(keys.size).toBeLessThanOrEqual(names.length);
  });

  it('and nor does what fails while the store is asked', async () => {
    const { reader, store } = createReader(new ParkedKeys(names.length / 2));
    for (const key of names) reader.keys.addBeyond(0, key);
    const answer = gate<KeyInBucket[]>();
    store.blockedAmong = () => answer.opened;
    const asking = reader.ask([stored({ key: 'k0' }), stored({ key: 'x' })]);
    for (let i = 0; i < 8; i += 1) reader.keys.addBeyond(0, `failed${i}`);
    answer.open([{ bucket: 0, key: 'x' }]);
    await asking;
    expect([reader.keys.has(0, 'k0'), reader.keys.has(0, 'x')]).toEqual([true, true]);
    expect(reader.keys.size).toBeLessThanOrEqual(names.length);
  });

  it('stays within its bound plus what is at hand where nothing else could go', () => {
    const keys = new ParkedKeys(5);
    for (const key of names) keys.addBeyond(0, key);
    keys.keep(new Set(names));
    for (let i = 0; i < 100; i += 1) keys.addBeyond(1, `x${i}`);
    expect(keys.size).toBeLessThanOrEqual(2 * names.length + 2);
    for (const key of names) expect(keys.has(0, key)).toBe(true);
  });

  it('P4: keeps the key of a due row while the store marks it, which does not know yet that it blocks', async () => {
    const { reader, store, due, pass } = createReader(new ParkedKeys(1));
    due.push({ parkedId: 'p1', bucket: 0, key: 'due', state: 'scheduled' });
    const marked = gate();
    const { take } = store;
    store.take = async (request) => marked.opened.then(() => take(request));
    const taking = pass();
    await turn();
    for (let i = 0; i < 8; i += 1) reader.keys.addBeyond(1, `failed${i}`);
    await reader.ask([stored({ key: 'due' })]);
    expect(reader.keys.has(0, 'due')).toBe(true); // else it is accepted from the ready table, and what follows parked before it
    marked.open();
    expect((await taking).taken).toBe(1);
    reader.keys.keep(new Set());
    expect(reader.keys.size).toBeLessThanOrEqual(2);
  });

  describe('and fewer again', () => {
    const RELOAD = 30_000;
    function overflown() {
      const under = createReader(new ParkedKeys(5));
      under.blocking.push(...names.map((key) => ({ bucket: 0, key, ready: false })));
      return under;
    }
    /** Operators released most of them, and time passes. */
    async function released({ blocking, reader, clock }: ReturnType<typeof overflown>): Promise<void> {
      await reader.load([0]);
      expect(reader.keys.overflow).toBe(true);
      blocking.splice(2);
      reader.loadedUpTo.clear();
      for (const key of names) reader.keys.delete(0, key);
      await clock.advance(RELOAD);
    }

    it('nobody is asked any more once all that are blocked are known', async () => {
      const under = overflown();
      await released(under);
      await under.pass();
      expect([under.reader.keys.overflow, under.reader.keys.size]).toEqual([false, 2]);
    });

    it.each<[string, (under: ReturnType<typeof overflown>) => void]>([
      ['with a bucket that was not looked at', ({ epochs }) => void epochs.set(1, '1')],
      ['with a failure that is not written', ({ reader }) => void reader.ledger.unwritten.pending.set('k9', 1)],
      [
        'with one that was pushed out meanwhile',
        ({ reader, store }) => {
          const { blockingKeys } = store;
          store.blockingKeys = async (...of) => {
            for (let i = 0; i < 11; i += 1) reader.keys.addBeyond(0, `x${i}`);
            return blockingKeys(...of);
          };
        },
      ],
    ])('but not %s', async (_, spoil) => {
      const under = overflown();
      await released(under);
      spoil(under);
      await under.pass([0]);
      expect(under.reader.keys.overflow).toBe(true);
    });
  });
});
