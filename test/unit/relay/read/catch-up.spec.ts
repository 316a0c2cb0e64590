import type { OutboxMessage } from '../../../../lib/index.js';
import { CatchUp } from '../../../../lib/relay/read/catch-up.js';
import { Reader } from '../../../../lib/relay/read/reader.js';
import { SnapshotLowWaterMark } from '../../../../lib/relay/read/snapshot-low-water-mark.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { BUCKETS, GONE, HeldTable } from '../../../support/held-table.js';

/** Milliseconds after which a read far below the last number is given up. */
const GIVEN_UP = 50;

describe('Reader above whose heads rows are gone', () => {
  let clock: FakeClock;
  let table: HeldTable;
  let floor: SnapshotLowWaterMark;
  let reader: Reader;
  const open = (from: number, to: number, ...live: [number, number][]): void => {
    clock = new FakeClock();
    table = new HeldTable(clock, from, to);
    table.live = live.map(([bucket, seq]) => ({ bucket, seq: String(seq) }));
    floor = new SnapshotLowWaterMark();
    reader = new Reader(table, 0, floor, clock, { fullScanEvery: 1e9 });
    for (const bucket of BUCKETS) reader.add(bucket);
  };
  const settle = (messages: readonly OutboxMessage[]): void => {
    for (const message of messages) {
      table.live = table.live.filter(({ bucket, seq }) => bucket !== message.bucket || seq !== message.seq);
      reader.settled(message);
    }
  };
  const seqs = (messages: readonly OutboxMessage[]): string[] =>
    messages.map(({ bucket, seq }) => `${bucket} ${seq}`).sort();
  /** Reads until nobody has to be read on at once. @returns what came */
  const readAll = async (limit = 100, most = 2_000): Promise<string[]> => {
    const found: string[] = [];
    for (let reads = 0; reads < most; reads += 1) {
      const { messages, more } = await reader.read(limit);
      found.push(...seqs(messages));
      settle(messages);
      if (reader.buckets !== undefined && !more) return found;
    }
    throw new Error(`not within ${most} reads`);
  };
  const longest = (): number => Math.max(...table.asked.map(({ ms, cancelled }) => (cancelled ? 0 : ms)));
  const cancelled = (): number => table.asked.filter((each) => each.cancelled).length;

  it('Q5: where nothing is gone, one statement reads a bucket from its beginning, and none reads it from there again', async () => {
    open(0, 0, [0, 5]);
    table.last = '5000000000';
    expect(await readAll()).toEqual(['0 5']);
    expect(table.asked.length).toBeLessThanOrEqual(2);
    await reader.read(100);
    await reader.read(100);
    expect(Object.fromEntries(reader.heads)).toEqual({ 0: '5000000000', 1: '5000000000' });
    expect(floor.of(0)).toBe('5000000000'); // by the id that came with the first read
  });

  it('a backlog is drained without a time limit for each read: a bucket whose rows the read was cut in has more of them', async () => {
    open(0, 0, ...Array.from({ length: 400 }, (_, n): [number, number] => [n % 2, n + 1]));
    table.last = '5000000000';
    expect(await readAll(20)).toHaveLength(400);
    expect(table.asked.filter(({ most }) => most === GIVEN_UP).length).toBeLessThan(6);
  });

  it('Q5: a bucket that is ours already is read meanwhile', async () => {
    open(1, GONE);
    table.last = String(GONE + 1);
    reader.heads.set(1, String(GONE));
    table.live.push({ bucket: 1, seq: String(GONE + 1) }, { bucket: 0, seq: String(GONE + 1) });
    const found: string[] = [];
    let at = 0;
    for (let reads = 0; found.length < 2; reads += 1) {
      found.push(...seqs((await reader.read(100)).messages));
      if (found.length === 0) at = reads;
      expect(reads).toBeLessThan(1_000);
    }
    expect(found).toEqual([`1 ${GONE + 1}`, `0 ${GONE + 1}`]);
    expect(at).toBeLessThan(5);
  });

  it('Q7: past five billion numbers of which nothing is left in few reads; one that grew too wide is given up, and asks for less', async () => {
    const last = 5_000_000_000;
    open(last - GONE, last, [0, 1]);
    expect(await readAll(100, 1_500)).toEqual(['0 1']);
    expect(cancelled()).toBeGreaterThan(0);
    expect(cancelled()).toBeLessThan(15);
    expect(longest()).toBeLessThanOrEqual(GIVEN_UP);
    expect(reader.heads.get(0)).toBe(String(last));
  });

  it('Q7: a backlog is read in as few statements as its rows need, also from a server that is far', async () => {
    open(0, 0, ...Array.from({ length: 20_000 }, (_, i): [number, number] => [i % 2, i * 16 + 1]));
    table.last = '320000';
    table.slow = 25;
    expect(await readAll(500)).toHaveLength(20_000);
    expect(table.asked.length).toBeLessThan(60);
  });

  it('Q7: what is given back below them is read again, and the floor stays where it is', async () => {
    open(GONE, GONE, [0, 10], [0, GONE]);
    const { messages } = await reader.read(100);
    expect(seqs(messages)).toEqual(['0 10', `0 ${GONE}`]);
    const [low, high] = messages as [OutboxMessage, OutboxMessage];
    await reader.read(100);
    settle([high]);
    table.from = 10;
    table.asked.length = 0;
    reader.rewind([low]);
    expect(reader.heads.get(0)).toBe('9');
    expect(await readAll()).toEqual(['0 10']);
    expect(longest()).toBeLessThanOrEqual(GIVEN_UP);
    expect([reader.heads.get(0), floor.of(0)]).toEqual([String(GONE), String(GONE)]);
  });

  it('Q10: below a sequence that was set back under them new rows come, and those above once nothing is gone any more', async () => {
    open(0, 0);
    table.last = String(15 * GONE);
    await readAll();
    [table.to, table.last] = [15 * GONE, '0'];
    table.live = [{ bucket: 1, seq: String(14 * GONE) }];
    const read = async (): Promise<string[]> => seqs((await reader.read(100).catch(() => ({ messages: [] }))).messages);
    for (let n = 0; n < 4; n += 1) expect(await read()).toEqual([]);
    table.live.push({ bucket: 0, seq: '1' });
    table.last = '1';
    const found: string[] = [];
    for (let n = 0; n < 4; n += 1) found.push(...(await read()));
    expect(found).toEqual(['0 1']);
    table.to = 0;
    for (let n = 0; n < 4; n += 1) found.push(...(await read()));
    expect(found).toEqual(['0 1', `1 ${14 * GONE}`]);
    expect(Object.fromEntries(reader.heads)).toEqual({ 0: '1', 1: '1' });
  });

  it('Q5: where the server is so busy that the smallest part takes too long, it gets more time', async () => {
    open(GONE - 40, GONE);
    table.slow = 300;
    expect(await readAll(100)).toEqual([]);
    expect(reader.heads.get(0)).toBe(String(GONE));
  });

  it('Q5: what the server refuses for another reason is an error', async () => {
    open(0, GONE);
    table.fetch = () => Promise.reject(new Error('deadlock detected'));
    await expect(reader.read(100)).rejects.toThrow('deadlock');
  });
});

describe('CatchUp where the end of a range is no end for the server', () => {
  it('Q6: a read that took as long as any statement may is followed by one of half its buckets, and quick ones by more', () => {
    const catchUp = new CatchUp(false);
    const positions = Array.from({ length: 8 }, (_, bucket) => ({ bucket, after: '0' }));
    const came = (ms: number): void => {
      const read = { positions: positions.slice(0, catchUp.buckets), last: '9000000', rows: 0, ms };
      expect(catchUp.came(read, new Map(), () => true).size).toBe(read.positions.length);
    };
    expect(catchUp.limitOf(positions, '9000000', new Set())).toBeUndefined();
    expect(catchUp.position(3, '0', '9000000')).toEqual({ bucket: 3, after: '0' });
    for (const left of [4, 2, 1, 1]) {
      catchUp.gaveUp(positions.slice(0, catchUp.buckets), 10_000);
      expect([catchUp.buckets, catchUp.isOn]).toEqual([left, true]);
    }
    came(9_000);
    expect(catchUp.buckets).toBe(1);
    for (const now of [2, 4, 8, 16]) {
      came(100);
      expect(catchUp.buckets).toBe(now);
    }
    came(100);
    expect(catchUp.isOn).toBe(false);
  });
});
