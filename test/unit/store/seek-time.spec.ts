import { createUuidV7, timeOfUuidV7 } from '../../../lib/message/uuid-v7.js';
import { seekTime, writtenBetween, writtenTogether, type NumberedRow } from '../../../lib/store/seek-time.js';
import { readPosition, writePosition } from '../../../lib/store/position.js';

describe('seekTime', () => {
  const rows = Array.from({ length: 1_000 }, (_, n): NumberedRow => ({ seq: BigInt(n * 7), createdAt: n * 10 }));
  let looks = 0;
  const first = async (seq: bigint) => {
    looks += 1;
    return rows.find((row) => row.seq >= seq);
  };
  const ends = { first: rows[0] as NumberedRow, last: rows.at(-1) as NumberedRow };
  const SIDES = ['before', 'behind'] as const;

  it.each([0, 1, 10, 4_321, 9_990])(
    'finds the rows of time %i and later within a second, with few looks',
    async (time) => {
      for (const side of SIDES) {
        looks = 0;
        const seq = await seekTime(time, { ...ends, side }, first);
        expect(looks).toBeLessThan(6);
        const found = (await first(seq))?.createdAt ?? Infinity;
        if (side === 'before') expect([found <= Math.ceil(time / 10) * 10, found > time - 1_000]).toEqual([true, true]);
        else expect([found >= time, found < time + 1_000]).toEqual([true, true]);
      }
    },
  );

  it('is behind the last one when all are earlier', async () => {
    for (const side of SIDES) expect(await seekTime(10_000, { ...ends, side }, first)).toBe(999n * 7n + 1n);
  });

  it.each<[string, (n: number) => number]>([
    ['comes evenly', (n) => n * 86_400],
    ['comes faster and faster', (n) => 86_400_000 * Math.sqrt(n)],
    ['comes in bursts', (n) => Math.floor(n / 1_000) * 86_400_000 + (n % 1_000)],
    ['waits behind one that is a year old', (n) => (n === 0 ? 0 : 31_536_000_000 + n)],
  ])('finds it among ten million rows of which the load %s', async (_, timeOf) => {
    const NUMBER = 10_000_000;
    const row = (n: number): NumberedRow => ({ seq: BigInt(n), createdAt: timeOf(n) });
    for (const n of [1, 77_777, 5_000_000, NUMBER - 2]) {
      let count = 0;
      const at = async (seq: bigint) => (count++, seq < NUMBER ? row(Number(seq)) : undefined);
      const of = { first: row(0), last: row(NUMBER - 1) };
      const [time, before, behind] = [timeOf(n), 'before', 'behind'] as const;
      const from = await seekTime(time, { ...of, side: before }, at);
      const to = await seekTime(time, { ...of, side: behind }, at);
      expect(from <= BigInt(n) && timeOf(Number(from)) > time - 1_001 - (time - timeOf(n - 1))).toBe(true);
      expect(to >= from && to <= NUMBER && timeOf(Number(to)) < time + 1_001).toBe(true);
      expect(count).toBeLessThan(2 * 48); // halving alone takes 24
    }
  });
});

describe('ids of different times', () => {
  it('are looked for together when they are near each other, and not at all when they tell no time', () => {
    const at = (ms: number): string => createUuidV7({ now: () => ms })();
    const [one, two, far] = [at(1_000_000), at(1_050_000), at(9_000_000)];
    expect(writtenTogether([far, two, '01931d2f-0a5b-4c3d-8e4f-0123456789ab', one])).toEqual([[one, two], [far]]);
    expect(writtenTogether([])).toEqual([]);
  });
});

describe('the time in an id', () => {
  it('is there in version 7 alone', () => {
    expect(timeOfUuidV7('01931d2f-0a5b-7c3d-8e4f-0123456789ab')).toBe(0x01931d2f0a5b);
    expect(timeOfUuidV7('01931d2f-0a5b-4c3d-8e4f-0123456789ab')).toBeUndefined();
    expect(writtenBetween(['01931d2f-0a5b-4c3d-8e4f-0123456789ab'])).toBeUndefined();
    const between = writtenBetween(['01931d2f-0a5b-7c3d-8e4f-0123456789ab']);
    expect((between?.from ?? 0) < 0x01931d2f0a5b && (between?.to ?? 0) > 0x01931d2f0a5b).toBe(true);
  });
});

describe('a position', () => {
  it('is read back as it was written', () => {
    const parts = ['2026-01-01T00:00:00.123456Z', '9223372036854775807', 'a"\\'];
    expect(readPosition(writePosition(parts), ['time', 'number', 'text'])).toEqual(parts);
  });
  it.each(['', 'null', '{}', '["1"]', '["1","x"]', '["1; select","1"]', '[1,2]'])(
    '%s is none of two numbers',
    (text) => {
      expect(() => readPosition(text, ['number', 'number'])).toThrow('The cursor is not from this outbox.');
    },
  );
});
