import type { OutboxMessage } from '../../../../lib/index.js';
import { Reader } from '../../../../lib/relay/read/reader.js';
import { SnapshotLowWaterMark } from '../../../../lib/relay/read/snapshot-low-water-mark.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { BUCKETS, GONE, HeldTable } from '../../../support/held-table.js';

/** Milliseconds that a read may take which grew too wide, and to which it should not get near. */
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
    reader = new Reader(table, 0, floor, clock, () => undefined, 1e9);
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
  const fetches = () => table.asked.filter(({ what }) => what === 'fetch');
  const walked = (): number => fetches().reduce((sum, { ms }) => sum + ms, 0);
  const longest = (): number => Math.max(...fetches().map(({ ms }) => ms));

  it('Q7: a row below them is read at once, each number is walked over once, and no read takes longer than milliseconds', async () => {
    open(1, GONE, [0, 1], [1, 1]);
    const first = await reader.read(100);
    expect(seqs(first.messages)).toEqual(['0 1', '1 1']);
    settle(first.messages);
    expect(await readAll()).toEqual([]);
    expect(longest()).toBeLessThan(GIVEN_UP / 2);
    expect(walked()).toBeLessThan((1.1 * GONE) / 1_000);
    expect(Object.fromEntries(reader.heads)).toEqual({ 0: String(GONE), 1: String(GONE) });
    const before = walked();
    for (let i = 0; i < 10; i += 1) await reader.read(100);
    expect(walked()).toBe(before);
    expect(floor.of(0)).toBe(String(GONE));
  });

  it('Q7: between two such reads the others are read, and what is newer than these rows comes after those between them', async () => {
    open(1, GONE, [0, 1], [0, 2_000_000], [1, 1]);
    settle((await reader.read(100)).messages);
    reader.walks?.forget(1);
    reader.heads.set(1, String(GONE)); // as a bucket that was read to the end before
    table.last = String(GONE + 2);
    table.live.push({ bucket: 0, seq: String(GONE + 2) }, { bucket: 1, seq: String(GONE + 1) });
    const next = await reader.read(100);
    settle(next.messages);
    expect(seqs(next.messages)).toEqual([`1 ${GONE + 1}`]);
    expect(await readAll()).toEqual(['0 2000000', `0 ${GONE + 2}`]);
  });

  it('Q7: past five billion numbers of which nothing is left in few reads; one that grew too wide is given up, and asks for less', async () => {
    const last = 5_000_000_000;
    open(last - GONE, last, [0, 1]);
    expect(await readAll(100, 1_500)).toEqual(['0 1']);
    const cancelled = fetches().filter((each) => each.cancelled);
    expect(cancelled.length).toBeGreaterThan(0);
    expect(cancelled.length).toBeLessThan(12);
    for (const each of fetches()) if (!each.cancelled) expect(each.ms).toBeLessThanOrEqual(GIVEN_UP);
    expect(reader.heads.get(0)).toBe(String(last));
  });

  it('Q7: where none of them is, a backlog is read in as few statements as its rows need, also from a server that is far', async () => {
    open(0, 0, ...Array.from({ length: 20_000 }, (_, i): [number, number] => [i % 2, i * 16 + 1]));
    table.last = '320000';
    table.slow = 25;
    expect(await readAll(500)).toHaveLength(20_000);
    expect(fetches().length).toBeLessThan(60);
  });

  it('Q7: what is given back below them is read again without a walk to the end, and the floor stays where it is', async () => {
    open(GONE, GONE, [0, 10], [0, GONE]);
    const { messages } = await reader.read(100);
    const [low] = messages as [OutboxMessage];
    const rest: OutboxMessage[] = [];
    while (reader.buckets === undefined) rest.push(...(await reader.read(100)).messages);
    expect(seqs([low, ...rest])).toEqual(['0 10', `0 ${GONE}`]);
    settle(rest);
    table.from = 10;
    table.asked.length = 0;
    reader.rewind([low]);
    expect(reader.heads.get(0)).toBe('9');
    expect(await readAll()).toEqual(['0 10']);
    expect(longest()).toBeLessThan(GIVEN_UP / 2);
    expect(walked()).toBeLessThan((1.1 * GONE) / 1_000);
    expect([reader.heads.get(0), floor.of(0)]).toEqual([String(GONE), String(GONE)]);
  });

  it('Q7: one row that is given back below a few numbers is read again in one statement', async () => {
    open(0, 0, [0, 10], [0, 20], [1, 30]);
    table.last = '30';
    const { messages } = await reader.read(100);
    reader.rewind(messages.slice(0, 1));
    expect(reader.buckets).toBe(2);
  });

  it('Q7: a read to the end that takes longer than a statement may is not made again: the beginning is looked for', async () => {
    open(0, 0);
    table.last = String(GONE);
    await readAll();
    [table.from, table.to, table.last] = [GONE, 15 * GONE, String(15 * GONE)];
    table.live = [0, 1].map((bucket) => ({ bucket, seq: String(15 * GONE) }));
    const reading = reader.read(100);
    reader.forget(1); // by whom it is not ours any more, it is not looked for
    await expect(reading).rejects.toThrow('statement timeout');
    expect([reader.approach?.has(0), reader.approach?.has(1)]).toEqual([true, false]);
    table.asked.length = 0;
    expect(await readAll(100, 20_000)).toEqual([`0 ${15 * GONE}`]);
    expect(Math.max(...table.asked.map(({ ms, cancelled }) => (cancelled ? 0 : ms)))).toBeLessThanOrEqual(GIVEN_UP);
    expect(reader.heads.get(1)).toBeUndefined();
  });

  describe('where a sequence was set back below them', () => {
    /** Published by now; the sequence begins anew. @param live rows that are left above */
    const setBack = async (...live: [number, number][]): Promise<void> => {
      const highest = live.some(([, seq]) => seq > GONE) ? 15 * GONE : GONE;
      open(0, 0);
      table.last = String(highest);
      await readAll();
      [table.from, table.to, table.last] = [0, highest, '0'];
      table.live = live.map(([bucket, seq]) => ({ bucket, seq: String(seq) }));
      table.asked.length = 0;
    };
    const longestOfAll = (): number => Math.max(...table.asked.map(({ ms, cancelled }) => (cancelled ? 0 : ms)));
    const insert = (...live: [number, number][]): void => {
      table.live.push(...live.map(([bucket, seq]) => ({ bucket, seq: String(seq) })));
      table.last = String(live.at(-1)?.[1]);
    };

    it('Q10: no read is given up by the server but one of 50 ms; new rows come at once, and those above once, in order', async () => {
      await setBack([0, 2_000_000], [0, 14 * GONE], [1, 3_000_000]);
      await reader.read(100);
      await reader.read(100);
      insert([0, 1], [1, 2]);
      const began = clock.monotonic();
      const first: string[] = [];
      for (let n = 0; n < 5_000 && first.length < 2; n += 1) {
        const { messages } = await reader.read(100);
        first.push(...seqs(messages));
        settle(messages);
      }
      expect(first).toEqual(['0 1', '1 2']);
      expect(clock.monotonic() - began).toBeLessThan(200);
      expect(await readAll(100, 20_000)).toEqual(['0 2000000', '1 3000000', `0 ${14 * GONE}`]);
      expect(longestOfAll()).toBeLessThanOrEqual(GIVEN_UP);
      expect(table.asked.filter(({ ms, cancelled }) => cancelled && ms > GIVEN_UP)).toHaveLength(1);
      expect(Object.fromEntries(reader.heads)).toEqual({ 0: '2', 1: '2' });
      expect(walked()).toBeLessThan((1.2 * 15 * GONE) / 1_000 + 45_000);
    });

    it('Q10: once no more is looked through, reads cost what a few numbers do, and the end is tried every 5 s', async () => {
      await setBack();
      await readAll(100, 20_000);
      table.asked.length = 0;
      for (let i = 0; i < 100; i += 1) {
        await clock.advance(100);
        await reader.read(100);
      }
      expect(table.asked).toHaveLength(100);
      expect(table.asked.filter(({ cancelled }) => cancelled)).toHaveLength(2);
      expect(longestOfAll()).toBeLessThan(2);
    });

    it('Q10: whoever ends late, and had numbers from before, is looked for; and what is given back comes again', async () => {
      await setBack();
      table.last = '10';
      table.snapshot = { xmin: '90', xmax: '101', open: ['90'] };
      await readAll(100, 20_000);
      expect(await readAll()).toEqual([]);
      table.live.push({ bucket: 1, seq: '2000000' });
      table.snapshot = { xmin: '102', xmax: '102', open: [] };
      let messages: readonly OutboxMessage[] = [];
      for (let n = 0; n < 5_000 && messages.length === 0; n += 1) ({ messages } = await reader.read(100));
      expect(seqs(messages)).toEqual(['1 2000000']);
      for (let n = 0; n < 5_000 && reader.buckets === undefined; n += 1) await reader.read(100);
      expect(reader.heads.get(1)).toBe('10');
      reader.rewind(messages);
      expect(await readAll(100, 20_000)).toEqual(['1 2000000']);
    });

    it('Q10: what comes meanwhile leaves in its order, though the look is past its beginning', async () => {
      await setBack();
      for (let n = 0; n < 100 && !(Number(reader.above?.at.get(0) ?? 0) > 4_096); n += 1) await reader.read(100);
      const end = Number(reader.above?.at.get(0));
      insert([0, 3_000], [0, end + 10]);
      const found: string[] = [];
      for (let n = 0; n < 5_000 && found.length < 2; n += 1)
        found.push(...(await reader.read(100)).messages.map(({ seq }) => seq));
      expect(found).toEqual(['3000', `${end + 10}`]);
    });

    it('Q10: what stands above waits for what is given back below it', async () => {
      await setBack([0, 10], [0, 3_000]);
      table.last = '10';
      let messages: readonly OutboxMessage[] = [];
      for (let n = 0; n < 5_000 && messages.length === 0; n += 1) ({ messages } = await reader.read(100));
      expect(seqs(messages)).toEqual(['0 10']);
      for (let n = 0; n < 5_000 && reader.above?.cut.has(0) !== true; n += 1)
        expect((await reader.read(100)).messages).toEqual([]);
      reader.rewind(messages);
      expect(await readAll(100, 20_000)).toEqual(['0 10', '0 3000']);
    });

    it('Q10: where none was, the first read to the end alone has a limit, and there is one statement in each read', async () => {
      open(0, 0, [0, 5], [1, 6]);
      table.last = '6';
      const limits: (number | undefined)[] = [];
      const { fetch } = table;
      table.fetch = (request) => (limits.push(request.within), fetch.call(table, request));
      expect(await readAll()).toEqual(['0 5', '1 6']);
      expect(limits.filter((limit) => limit !== undefined)).toHaveLength(1);
      [limits.length, table.asked.length] = [0, 0];
      for (let i = 7; i < 107; i += 1) {
        insert([i % 2, i]);
        settle((await reader.read(100)).messages);
      }
      expect(limits).toEqual(Array.from({ length: 100 }, () => undefined));
      expect(table.asked).toHaveLength(100);
    });

    it('Q10: reads go to the end again once nothing stands there', async () => {
      await setBack();
      await readAll(100, 20_000);
      expect(fetches().at(-1)?.ranges[0]?.upTo).toBeDefined();
      table.to = 0;
      await clock.advance(5_000);
      await reader.read(100);
      table.asked.length = 0;
      await reader.read(100);
      expect(table.asked.map(({ ranges }) => ranges.map(({ upTo }) => upTo))).toEqual([[undefined, undefined]]);
    });
  });
});
