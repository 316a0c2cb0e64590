import { ParkedKeys } from '../../../../lib/relay/order/parked-keys.js';
import type { DueRow, KeyInBucket } from '../../../../lib/store/parked-store.js';
import { createReader, POLL } from '../../../support/parked-reader.js';
import { createTransportRelay, gate, leased, stored, turn } from '../../../support/transport-relay.js';

const scheduled = (count: number): DueRow[] =>
  Array.from({ length: count }, (_, i) => ({ parkedId: String(i), bucket: 0, key: `k${i}`, state: 'scheduled' }));

describe('parked messages and the keys that go on', () => {
  it('what somebody else has locked is asked for once per poll, with its key, and hides nothing that is due', async () => {
    const { reader, store, due, clock, pass } = createReader();
    due.push(...scheduled(3), { parkedId: '3', bucket: 0, key: 'k0', state: 'scheduled' });
    const asked: string[][] = [];
    store.take = async (request) => {
      asked.push([...request.due.map(({ parkedId }) => parkedId), ...request.keys.map(({ key }) => key)]);
      return { durable: true, messages: [], clear: [], passedOver: request.due.slice(0, 1) };
    };
    reader.recheck.recheckedAt = clock.monotonic(); // no key comes in turn
    for (let i = 0; i < 3; i += 1) await pass(undefined, 1);
    expect(asked).toEqual([['0'], ['1'], ['2']]);
    expect(await pass(undefined, 1)).toMatchObject({ taken: 0 });
    expect(asked).toHaveLength(3);
    await clock.advance(POLL);
    await pass();
    expect(asked[3]).toEqual(['0', '1', '2', '3', 'k0', 'k1', 'k2']);
  });

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

  it('a backlog of what is due does not pile up keys to ask for, and those take their turn within it', async () => {
    const { reader, due, asked, pass } = createReader();
    due.push(...scheduled(20_000));
    reader.continueKey(0, 'first');
    await pass();
    reader.continueKey(0, 'later');
    let most = 0;
    for (let passes = 0; due.length > 0 && passes < 1_000; passes += 1) {
      await pass();
      most = Math.max(most, reader.toContinue.size, reader.keys.size);
    }
    expect(due).toEqual([]);
    expect(most).toBeLessThanOrEqual(1_000);
    const turns = asked.findIndex((keys) => keys.some(({ key }) => key === 'later'));
    expect(turns).toBeLessThan(5);
  });

  it.each([1, 2, 500])('at a pass of %s, too, keys that nothing tells of are looked at once a poll', async (limit) => {
    const { reader, due, asked, clock, pass } = createReader();
    due.push(...scheduled(5_000));
    for (let i = 0; i < 2_000; i += 1) reader.continueKey(0, `busy${i}`);
    reader.keys.add(0, 'released by an operator');
    await pass(undefined, limit);
    await clock.advance(POLL);
    await pass(undefined, limit);
    expect(asked.flat()).toContainEqual({ bucket: 0, key: 'released by an operator' });
    const before = asked.length;
    for (let i = 0; i < 10; i += 1) await pass(undefined, limit);
    const after = asked.slice(before).flat();
    expect(after.filter(({ key }) => key.startsWith('busy')).length).toBeGreaterThan(4);
  });

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

  it('a key behind whose rows a message was parked is asked for at the next poll, once, beside however many others', async () => {
    const { reader, blocking, asked, clock, pass } = createReader();
    for (let i = 0; i < 5_000; i += 1) blocking.push({ bucket: 0, key: `k${i}`, ready: false });
    for (const { key } of blocking) reader.keys.add(0, key);
    const park = (key: string, state: 'blocked' | 'dead') =>
      ({ message: stored({ key }), state, blocks: true, attempts: 0, delay: null, error: null, epoch: '1' }) as const;
    const parked = [park('k4000', 'blocked'), park('k4001', 'dead')];
    for (const each of parked) reader.parking(each);
    for (const each of parked) reader.parked(each);
    for (let polls = 0; polls < 3; polls += 1) {
      await pass();
      await clock.advance(POLL);
    }
    const times = (key: string): number => asked.flat().filter((at) => at.key === key).length;
    expect([times('k4000'), times('k4001')]).toEqual([1, 0]);
    for (let i = 0; i < 5_000; i += 1) reader.parked(park(`k${i}`, 'blocked'));
    await pass();
    expect(asked.at(-1)?.length).toBeLessThanOrEqual(300);
    reader.forget(0);
    expect(reader.recheck.behind.size).toBe(0);
  });

  it('a key whose bucket cannot be published from just now is asked for as soon as it can', async () => {
    const { reader, epochs, asked, pass } = createReader();
    epochs.set(3, '1');
    reader.found(3, 'k', true);
    await pass([0]);
    expect([asked.flat(), reader.toContinue.size]).toEqual([[], 1]);
    await pass([0, 3]);
    expect([asked.flat(), reader.toContinue.size, reader.keys.size]).toEqual([[{ bucket: 3, key: 'k' }], 0, 0]);
  });

  it('what was found under the next lease, while this pass asks under the last one, is asked for again', async () => {
    const { reader, store, epochs, pass } = createReader();
    const late = gate<{ rows: DueRow[]; nextIn: null }>();
    store.due = () => late.opened;
    const running = pass();
    await turn();
    reader.forget(0);
    epochs.set(0, '2');
    reader.found(0, 'k', true);
    late.open({ rows: [], nextIn: null });
    await running;
    expect([...reader.toContinue.keys()]).toEqual(['k']);
  });

  it('keys of a bucket that is gone are forgotten', async () => {
    const { reader, epochs, pass } = createReader();
    reader.continueKey(7, 'k');
    await pass();
    expect([reader.toContinue.size, epochs.has(7)]).toEqual([0, false]);
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

  it('gives up what it kept for those that were at hand before', () => {
    const keys = new ParkedKeys(2);
    for (let read = 0; read < 10; read += 1) {
      const atHand = names.map((key) => `${key} of ${read}`);
      keys.keep(new Set(atHand));
      for (const key of atHand) keys.addBeyond(read, key);
      for (const key of atHand) expect(keys.has(read, key)).toBe(true);
    }
    keys.keep(new Set(['x']));
    expect([keys.size, keys.overflow]).toEqual([5, true]);
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

  it.each([
    ['has more', 5],
    ['ends', 2],
  ])(
    'a load that %s, and is answered when the lease is gone, says nothing of how far the next one came',
    async (_, count) => {
      const { reader, store, epochs } = createReader(new ParkedKeys(5));
      const rows = names.map((key) => ({ bucket: 0, key, ready: false }));
      const answer = gate<typeof rows>();
      const answers = [rows.slice(0, 5), answer.opened, rows.slice(0, 5)];
      store.blockingKeys = async () => answers.shift() ?? [];
      await reader.load([0]);
      const late = reader.load([0]);
      reader.forget(0);
      epochs.set(0, '2');
      await reader.load([0]);
      answer.open(rows.slice(5, 5 + count));
      await late;
      expect([...reader.loadedUpTo]).toEqual([[0, 'k4']]);
      expect(reader.keys.size).toBe(5);
    },
  );

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
