import { timeOfUuidV7 } from '../../../lib/message/uuid-v7.js';
import { seekTime, writtenBetween, type NumberedRow } from '../../../lib/store/seek-time.js';
import { readPosition, writePosition } from '../../../lib/store/position.js';

describe('seekTime', () => {
  const rows = Array.from({ length: 1_000 }, (_, n): NumberedRow => ({ seq: BigInt(n * 7), createdAt: n * 10 }));
  let looks = 0;
  const first = async (seq: bigint) => {
    looks += 1;
    return rows.find((row) => row.seq >= seq);
  };
  const whole = { from: 0n, to: 999n * 7n + 1n };

  it.each([0, 1, 10, 4_321, 9_990])('finds the first row of time %i and later with few looks', async (time) => {
    looks = 0;
    const seq = await seekTime(time, whole, first);
    expect((await first(seq))?.createdAt).toBe(Math.ceil(time / 10) * 10);
    expect(looks).toBeLessThan(20);
  });

  it('is behind the last one when all are earlier', async () => {
    expect(await seekTime(10_000, whole, first)).toBe(whole.to);
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
      expect(() => readPosition(text, ['number', 'number'])).toThrow('The cursor is none of this outbox.');
    },
  );
});
