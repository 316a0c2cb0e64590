import { Reader } from '../../../../lib/relay/read/reader.js';
import { SnapshotFloor } from '../../../../lib/relay/read/snapshot-floor.js';
import type { OutboxMessage } from '../../../../lib/outbox-message.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { BUCKETS, GONE, HeldTable } from '../../../support/held-table.js';

/** Milliseconds that a read may take which grew too wide, and to which it should not get near. */
const GIVEN_UP = 50;

describe('Reader above whose heads rows are gone', () => {
  let clock: FakeClock;
  let table: HeldTable;
  let floor: SnapshotFloor;
  let reader: Reader;
  const open = (from: number, to: number, ...live: [number, number][]): void => {
    clock = new FakeClock();
    table = new HeldTable(clock, from, to);
    table.live = live.map(([bucket, seq]) => ({ bucket, seq: String(seq) }));
    floor = new SnapshotFloor();
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
    expect(floor.floorOf(0)).toBe(String(GONE));
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
    expect([reader.heads.get(0), floor.floorOf(0)]).toEqual([String(GONE), String(GONE)]);
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
});
