import { instanceInfo, toldLease, toldPlace, toldTroubles, withTroubles } from '../../../lib/store/instance-info.js';

describe('what an instance tells of itself', () => {
  const TROUBLE = { code: 'transport_down', text: 'is away lease 1ms {' };

  it('is read again, whatever its troubles', () => {
    const info = instanceInfo(30_000);
    for (const text of [info, withTroubles(info, []), withTroubles(info, [TROUBLE])]) {
      expect(toldLease(text)).toBe(30_000);
      expect(toldPlace(text)).toMatch(new RegExp(`^.+ pid ${process.pid}$`));
    }
    expect(toldTroubles(withTroubles(info, [TROUBLE]))).toEqual([TROUBLE]);
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
