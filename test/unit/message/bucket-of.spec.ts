import { createHash } from 'node:crypto';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import { keyText } from '../../../lib/message/key-bytes.js';

/** The formula that foreign writers use: first two bytes of sha256 of the UTF-8 text, big endian, modulo the buckets. */
describe('bucketOf', () => {
  it.each(['a', 'order-1', 'a ', 'Ünïcødé', '🛒', ''])('agrees with sha256 for %j', (key) => {
    const expected = createHash('sha256').update(key, 'utf8').digest().readUInt16BE(0) % 32;
    expect(bucketOf(key, 32)).toBe(expected);
  });

  it('is that of the bytes for a key that is no text', () => {
    const bytes = Buffer.from('ff01', 'hex');
    expect(bucketOf(keyText(bytes), 1_000)).toBe(createHash('sha256').update(bytes).digest().readUInt16BE(0) % 1_000);
  });

  // Written down, so that a change of both sides of the comparison above is seen: rows in the field depend on it.
  it('has these values for ever', () => {
    expect(['a', 'order-1', 'a ', 'Ünïcødé', '🛒', ''].map((key) => bucketOf(key, 32))).toEqual([
      23, 15, 3, 17, 18, 16,
    ]);
    expect(['a', 'order-1'].map((key) => bucketOf(key, 1_000))).toEqual([863, 991]);
  });

  it('spreads keys evenly', () => {
    const counts = new Array<number>(32).fill(0);
    for (let i = 0; i < 32_000; i++) (counts[bucketOf(`key-${i}`, 32)] as number)++;
    expect(Math.min(...counts)).toBeGreaterThan(850);
    expect(Math.max(...counts)).toBeLessThan(1_150);
  });
});
