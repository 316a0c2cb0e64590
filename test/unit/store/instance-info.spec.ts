import {
  instanceInfo,
  toldLease,
  toldLife,
  toldPlace,
  toldTroubles,
  withTroubles,
} from '../../../lib/store/instance-info.js';

describe('what an instance tells of itself', () => {
  const TROUBLE = { code: 'transport_down', text: 'is away lease 1ms life 1.2.3 {' };

  it('is read again, whatever its troubles', () => {
    const info = instanceInfo(30_000, '0123456789abcdef.7.400');
    for (const text of [info, withTroubles(info, []), withTroubles(info, [TROUBLE])]) {
      expect(toldLease(text)).toBe(30_000);
      expect(toldLife(text)).toBe('0123456789abcdef.7.400');
      expect(toldPlace(text)).toMatch(new RegExp(`^.+ pid ${process.pid}$`));
    }
    expect(toldTroubles(withTroubles(info, [TROUBLE]))).toEqual([TROUBLE]);
    expect(toldLife(withTroubles(instanceInfo(30_000, undefined), [TROUBLE]))).toBeUndefined();
  });

  it('fits into its row', () => {
    const told = withTroubles('host', Array(100).fill('ä'.repeat(1_000)));
    expect(Buffer.byteLength(told)).toBeLessThan(65_535);
    expect(toldTroubles(told)).toHaveLength(9);
  });

  it.each(['host', 'host {"troubles":7}', 'host {"troubles":', 'host 7', 'host {}'])(
    'is nothing, where somebody else wrote the row: %s',
    (info) => expect(toldTroubles(info)).toEqual([]),
  );
});
