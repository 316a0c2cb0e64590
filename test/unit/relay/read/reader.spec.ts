import type { OutboxMessage } from '../../../../lib/index.js';
import { Reader } from '../../../../lib/relay/read/reader.js';
import { ProbedLowWaterMark } from '../../../../lib/relay/read/probed-low-water-mark.js';
import { compareSeq, type Place } from '../../../../lib/outbox-message.js';
import type { ReadRange, ReadyStore } from '../../../../lib/store/ready-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { stored } from '../../../support/transport-relay.js';

/** One bucket whose rows and answers the test decides. */
class Table implements Pick<ReadyStore, 'fetch' | 'sweep' | 'readPlaces' | 'probe'> {
  readonly rows = new Map<string, OutboxMessage>();
  /** Runs, and may throw, before the next answer of this method. */
  /** Places that a sweep returns, but for as many more as the reader knows. */
  page = Infinity;
  session = 1;
  /** What the sequence gave out last. */
  last: string | undefined;
  readonly before: Partial<Record<'fetch' | 'sweep' | 'readPlaces', () => void>> = {};

  put(...seqs: number[]): void {
    for (const seq of seqs) this.rows.set(String(seq), stored({ seq: String(seq) }));
  }
  between(after: string, upTo?: string): OutboxMessage[] {
    return [...this.rows.values()]
      .filter(({ seq }) => compareSeq(seq, after) > 0 && (upTo === undefined || compareSeq(seq, upTo) <= 0))
      .sort((a, b) => compareSeq(a.seq, b.seq));
  }
  async fetch({ positions, limit }: Parameters<ReadyStore['fetch']>[0]) {
    this.once('fetch');
    const messages = this.between(positions[0]?.after ?? '0').slice(0, limit);
    return { messages, snapshot: undefined, durable: true, session: this.session, source: this.source };
  }
  private get source() {
    return this.last === undefined ? undefined : { server: 'a', table: 't', last: this.last };
  }
  async sweep(_: number, [range]: readonly ReadRange[], known = 0) {
    const page = this.page + known;
    const places = this.between(range?.after ?? '0', range?.upTo).slice(0, page);
    this.once('sweep');
    return { places: places.map(({ bucket, seq }) => ({ bucket, seq })), complete: places.length < page };
  }
  async readPlaces(_: number, places: readonly Place[]) {
    this.once('readPlaces');
    const messages = places.flatMap(({ seq }) => this.rows.get(seq) ?? []);
    return { messages, snapshot: undefined, durable: true, session: this.session, source: this.source };
  }
  /** Whether no insert is under way. */
  isClean = false;
  async probe(_: number, ranges: readonly ReadRange[]) {
    return { clean: ranges.map(() => this.isClean), now: 0 };
  }
  private once(method: 'fetch' | 'sweep' | 'readPlaces'): void {
    const act = this.before[method];
    delete this.before[method];
    act?.();
  }
}

describe('Reader', () => {
  const FULL_SCAN = 45_000;
  let table: Table;
  let reader: Reader;
  let told: string[];
  let clock: FakeClock;
  let floor: ProbedLowWaterMark;
  beforeEach(() => {
    table = new Table();
    clock = new FakeClock();
    floor = new ProbedLowWaterMark(() => clock.monotonic());
    reader = new Reader(table, 0, floor, clock, { fullScanEvery: FULL_SCAN, warn: (why) => told.push(why) });
    told = [];
    reader.add(0);
  });
  const seqs = (messages: readonly OutboxMessage[]): number[] => messages.map(({ seq }) => Number(seq));
  const fails = (): never => {
    throw new Error('deadlock detected');
  };

  it('raises the mark to what was read long ago, where no insert is under way', async () => {
    table.isClean = true;
    table.put(1, 2);
    await reader.read(100);
    await clock.advance(61_000);
    await reader.read(100);
    expect(floor.of(0)).toBe('2');
  });

  it('forgets what a sweep found above the place to which it was wound back meanwhile, also when reading that fails', async () => {
    table.put(1, 2, 3, 10);
    const { messages } = await reader.read(100);
    expect(seqs(messages)).toEqual([1, 2, 3, 10]);
    floor.lower.marks.set(0, '3'); // proved: nothing appears at or below it
    table.put(5, 6, 7, 8);
    table.before.sweep = () => reader.rewind(messages); // given back while the sweep of (3, 10] is answered
    table.before.readPlaces = fails;
    await reader.read(2).catch(() => undefined);
    expect(seqs((await reader.read(100)).messages)).toEqual([1, 2, 3, 5, 6, 7, 8, 10]);
  });

  it.each(['rows in front of it are given back', 'its bucket is lost, and leased again'])(
    'forgets what is left of a sweep when %s',
    async (how) => {
      table.put(1, 2, 3, 10);
      const { messages } = await reader.read(100);
      floor.lower.marks.set(0, '3');
      table.put(5, 6, 7, 8);
      expect(seqs((await reader.read(2)).messages)).toEqual([5, 6]);
      if (how.startsWith('rows')) reader.rewind(messages.slice(2));
      else {
        for (const message of messages.slice(2)) reader.known.delete(message);
        reader.forget(0);
        reader.add(0);
      }
      expect(seqs((await reader.read(100)).messages)).toEqual([3, 7, 8, 10]);
    },
  );

  it('looks again for what a sweep had found when it could not be read', async () => {
    table.put(1, 10);
    await reader.read(100);
    floor.lower.marks.set(0, '3');
    table.put(4);
    table.before.readPlaces = fails;
    await expect(reader.read(100)).rejects.toThrow('deadlock');
    expect(seqs((await reader.read(100)).messages)).toEqual([4]);
  });

  it('P1: numbers that go back while more is read than a sweep may bring at once are noticed with the next part', async () => {
    table.last = '100';
    table.put(1, 100);
    await reader.read(100);
    floor.lower.marks.set(0, '3');
    table.put(10, 20, 30, 40);
    expect(seqs((await reader.read(2)).messages)).toEqual([10, 20]);
    table.last = '5';
    expect(await reader.read(2)).toMatchObject({ messages: [], startedOver: true });
    expect(told).toEqual([expect.stringMatching(/^the numbers of outbox_ready went back from 100 to 5/)]);
    expect(seqs((await reader.read(100)).messages)).toEqual([30, 40]);
  });

  it('P3: nothing is told of what is read again, was given back, or belongs to a bucket that is leased anew', async () => {
    table.put(1, 2, 3);
    const { messages } = await reader.read(100);
    floor.lower.marks.set(0, '3');
    reader.rewind(messages.slice(1));
    await clock.advance(FULL_SCAN);
    expect(seqs((await reader.read(100)).messages)).toEqual([2, 3]);
    floor.lower.marks.set(0, '3');
    for (const message of messages) reader.known.delete(message);
    reader.forget(0);
    reader.add(0);
    await clock.advance(FULL_SCAN);
    expect(seqs((await reader.read(100)).messages)).toEqual([1, 2, 3]);
    await clock.advance(FULL_SCAN);
    expect(seqs((await reader.read(100)).messages)).toEqual([]);
    expect(told).toEqual([]);
  });

  it('P2: a number that another message has since a new session is read, also behind the head, and each is known until it is settled', async () => {
    table.put(1, 2, 3, 9);
    const [, , lost] = (await reader.read(100)).messages;
    table.rows.delete('3');
    table.rows.delete('9');
    table.put(4);
    table.session = 2;
    const read = async (): Promise<number[]> => seqs((await reader.read(100)).messages);
    await read();
    expect(await read()).toEqual([4]);
    table.rows.set('3', stored({ seq: '3', id: 'another' })); // committed late, behind the head, in a number that is in flight
    expect(await read()).toEqual([3]);
    expect(await read()).toEqual([]);
    reader.settled(lost as OutboxMessage);
    expect(reader.known.ids.get('3')).toBe('another');
    expect(await read()).toEqual([]);
  });

  it('P2: a write that went out before the last read on the connection before is one of another server, and none that goes out behind a read of this one', async () => {
    table.put(1);
    await reader.read(100);
    const before = reader.headReads;
    expect(reader.isOfOtherServer(before)).toBe(false);
    table.session = 2;
    await reader.read(100); // says so, and begins anew
    expect(reader.isOfOtherServer(before)).toBe(true);
    await reader.read(100);
    expect(reader.isOfOtherServer(reader.headReads)).toBe(false);
    expect(reader.isOfOtherServer(before)).toBe(true);
  });

  it('P1: rows above the last number that was given out are read, and no position passes that number', async () => {
    const read = async (limit = 100): Promise<number[]> => seqs((await reader.read(limit)).messages);
    table.put(1, 2, 50, 51);
    table.last = '51';
    expect(await read()).toEqual([1, 2, 50, 51]);
    table.last = '2'; // set back, while two rows above it are on their way
    expect(await reader.read(100)).toMatchObject({ messages: [], more: true });
    expect(await read()).toEqual([]);
    expect(reader.heads.get(0)).toBe('2');
    table.put(3, 4);
    table.last = '4';
    expect(await read()).toEqual([3, 4]);
    for (const seq of ['50', '51']) table.rows.delete(seq);
    table.put(5);
    table.last = '5';
    expect(await read()).toEqual([5]);
  });

  it('goes on, from the start on a new connection, past more rows that cannot leave than one sweep returns', async () => {
    const drain = async (passes: number): Promise<number[]> => {
      const all: number[] = [];
      for (let pass = 0; pass < passes; pass += 1) all.push(...seqs((await reader.read(25)).messages));
      return all;
    };
    const stuck = Array.from({ length: 60 }, (_, i) => i + 1);
    table.put(...stuck);
    expect(await drain(10)).toEqual(stuck);
    floor.lower.marks.set(0, '60');
    table.page = 50;
    table.put(70); // below the floor nothing is swept
    expect(await drain(2)).toEqual([70]);
    table.session = 2; // which takes the floor back
    expect(await drain(10)).toEqual([]);
    table.put(65, 80);
    expect(await drain(10)).toEqual([65, 80]);
  });
});
