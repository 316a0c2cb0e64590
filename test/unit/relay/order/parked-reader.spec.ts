import type { DueRow, KeyInBucket } from '../../../../lib/store/parked-store.js';
import { createReader } from '../../../support/parked-reader.js';
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
});

describe('more blocked keys than fit into memory', () => {
  const names = Array.from({ length: 10 }, (_, i) => `k${i}`);

  it('none of a read overtakes, whether memory knows its key or the store', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    const { keys } = relay.parked;
    Object.assign(keys, { limit: names.length / 2 });
    for (const key of names) keys.add(0, key);
    store.blockedAmong = async (_transport, among) => [...among];
    store.ready = ['k0', 'x1', 'x2', 'k1', 'x3'].map((key) => stored({ key }));
    await relay.readOnce();
    await turn();
    expect(transport.published).toEqual([]);
    expect(keys.size).toBe(names.length / 2);
  });

  it('and nor does what fails while the store is asked', async () => {
    const { reader, store } = createReader(names.length / 2);
    for (const key of names) reader.keys.add(0, key);
    const answer = gate<KeyInBucket[]>();
    store.blockedAmong = () => answer.opened;
    const failed = stored({ key: 'fails' });
    const asking = reader.ask([
      stored({ key: 'k0' }),
      stored({ key: 'x' }),
      stored({ key: 'fails' }),
      stored({ key: 'y' }),
    ]);
    reader.parking({ message: failed, state: 'waiting', blocks: true, attempts: 1, delay: 1, error: 'no', epoch: '1' });
    answer.open([{ bucket: 0, key: 'x' }]);
    await asking;
    expect(['k0', 'x', 'fails', 'y'].map((key) => reader.isBlocked(0, key))).toEqual([true, true, true, false]);
    expect(reader.keys.size).toBe(names.length / 2);
  });

  it('P4: keeps the key of a due row while the store marks it, which does not know yet that it blocks', async () => {
    const { reader, store, due, pass } = createReader(1);
    due.push({ parkedId: 'p1', bucket: 0, key: 'due', state: 'scheduled' });
    const marked = gate();
    const { take } = store;
    store.take = async (request) => marked.opened.then(() => take(request));
    const taking = pass();
    await turn();
    reader.keys.forget(0); // it found no place
    reader.keys.overflow = true;
    await reader.ask([stored({ key: 'due' })]);
    expect(reader.isBlocked(0, 'due')).toBe(true); // else it is accepted from the ready table, and what follows parked before it
    marked.open();
    expect((await taking).taken).toBe(1);
  });

  it('one that is being parked is blocked, though the store has it only behind its answer', async () => {
    const { reader, store } = createReader(5);
    reader.keys.overflow = true;
    reader.ledger.unwritten.pending.set('failed', 1);
    store.blockedAmong = async () => {
      reader.ledger.unwritten.pending.delete('failed'); // written while we ask
      return [];
    };
    await reader.ask([stored({ key: 'failed' }), stored({ key: 'other' })]);
    expect(['failed', 'other'].map((key) => reader.isBlocked(0, key))).toEqual([true, false]);
    reader.accepted();
    expect(reader.isBlocked(0, 'failed')).toBe(false); // what the store says of later ones is asked with them
  });

  it('keeps none of the keys of due rows while nothing is read', async () => {
    const { reader, due, pass } = createReader(5);
    for (let i = 0; i <= 5; i += 1) reader.keys.add(0, `k${i}`);
    for (let i = 0; i < 50; i += 1) due.push({ parkedId: `${i}`, bucket: 0, key: `due ${i}`, state: 'waiting' });
    const keys = due.map(({ key }) => key as string);
    await pass();
    expect(keys.filter((key) => reader.isBlocked(0, key)).length).toBeLessThanOrEqual(5);
  });

  describe('and fewer again', () => {
    const RELOAD = 30_000;
    function overflown() {
      const under = createReader(5);
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
        'with one that found no place meanwhile',
        ({ reader, store }) => {
          const { blockingKeys } = store;
          store.blockingKeys = async (...of) => {
            for (let i = 0; i < 11; i += 1) reader.keys.add(0, `x${i}`);
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
