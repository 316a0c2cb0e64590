import { createUuidV7, parseUuid, parseUuidV7, timeOfUuidV7, uuidV7 } from '../../../lib/message/uuid-v7.js';

const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const timeOf = (id: string): number => parseInt(id.slice(0, 8) + id.slice(9, 13), 16);

/** Counter starts, as the two bytes that are drawn for them; everything else is zero. */
function fixed(start: number): (bytes: Uint8Array) => void {
  return (bytes) => {
    for (let i = 0; i < bytes.length; i += 2) {
      bytes[i] = start >>> 8;
      bytes[i + 1] = start & 0xff;
    }
  };
}

describe('uuidV7', () => {
  it('makes RFC 9562 version 7 ids of the current millisecond', () => {
    const before = Date.now();
    const id = uuidV7();
    expect(id).toMatch(V7);
    expect(timeOf(id)).toBeGreaterThanOrEqual(before);
    expect(timeOf(id)).toBeLessThanOrEqual(Date.now() + 1_000);
  });

  it('tells when an id was made, of this version alone', () => {
    const made = Date.UTC(2031, 5, 7, 8, 9, 10, 11);
    expect(timeOfUuidV7(createUuidV7({ now: () => made })())).toBe(made);
    expect(timeOfUuidV7('0b9d5a2e-6f3c-4c1e-9a77-2f1f6c1f9a10')).toBeUndefined();
    for (const id of ['zzzzzzzz-zzzz-7', '0193-7', '01931d2f-0a5é-7c3d', '\u{1F600}1931d2f-0a5-7'])
      expect(timeOfUuidV7(id)).toBeUndefined();
    expect(timeOfUuidV7('01931D2F-0A5B-7C3D-8E4F-0123456789AB')).toBe(0x01931d2f0a5b);
  });

  it('F8: is strictly increasing, so unique, over a million ids while the clock goes back and forth, without waiting', () => {
    let call = 0;
    const base = 1_700_000_000_000;
    const jumps = [0, 1, 1, 5, -10_000, 3, 60_000, -3_600_000];
    const next = createUuidV7({ now: () => base + (jumps[Math.floor(call++ / 1_000) % jumps.length] as number) });
    let last = '';
    let broken = 0;
    for (let i = 0; i < 1_000_000; i++) {
      const id = next();
      if (id <= last) broken++;
      last = id;
    }
    expect(broken).toBe(0);
    expect(last).toMatch(V7);
  });

  it('holds the time while the clock is behind', () => {
    let clock = 5_000;
    const next = createUuidV7({ now: () => clock });
    next();
    clock = 1_000;
    expect(timeOf(next())).toBe(5_000);
    clock = 5_001;
    expect(timeOf(next())).toBe(5_001);
  });

  it('borrows from the next millisecond when the counter is used up, with a stopped clock', () => {
    const next = createUuidV7({ now: () => 1_000, fill: fixed(0x7ff) });
    const ids = Array.from({ length: 0x1000 - 0x7ff }, next);
    expect(ids.every((id) => timeOf(id) === 1_000)).toBe(true);
    expect(ids.at(-1)?.slice(14, 18)).toBe('7fff');
    expect(timeOf(next())).toBe(1_001);
  });

  it('keeps all 48 bits of the time', () => {
    const last = 2 ** 48 - 1;
    expect(timeOf(createUuidV7({ now: () => last })())).toBe(last);
  });

  it('F8: draws new random bits for every id', () => {
    const tails = new Set(Array.from({ length: 10_000 }, () => uuidV7().slice(19)));
    expect(tails.size).toBe(10_000);
  });
});

describe('parseUuidV7', () => {
  const id = '01931d2f-0a5b-7c3d-8e4f-0123456789ab';
  it('returns lower case', () => {
    expect(parseUuidV7(id.toUpperCase())).toBe(id);
  });
  it.each([
    '01931d2f-0a5b-4c3d-8e4f-0123456789ab', // version 4
    '01931d2f-0a5b-7c3d-7e4f-0123456789ab', // variant
    '01931d2f0a5b7c3d8e4f0123456789ab',
    `{${id}}`,
    `${id}\n`,
    '',
    undefined,
    null,
    1,
    [id],
  ])('refuses %j', (other) => {
    expect(parseUuidV7(other)).toBeUndefined();
  });
  it('knows other versions where any will do', () => {
    expect(parseUuid('01931D2F-0a5b-4c3d-8e4f-0123456789ab')).toBe('01931d2f-0a5b-4c3d-8e4f-0123456789ab');
    expect(parseUuid('x')).toBeUndefined();
  });
});
