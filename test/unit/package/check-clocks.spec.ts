interface Clocks {
  ceilingsIn(name: string, text: string): string[];
}

describe('the check that no verdict hangs on how fast the machine is', () => {
  let ceilingsIn: (...lines: string[]) => string[];
  beforeAll(async () => {
    const clocks = (await import('../../../tools/check-clocks.mjs' as string)) as Clocks;
    ceilingsIn = (...lines) => clocks.ceilingsIn('a.spec.ts', lines.join('\n'));
  });

  it.each([
    ['the time that went by', ['expect(performance.now() - began).toBeLessThan(5_000);']],
    ['a variable that holds it', ['const lasted = Date.now() - began;', 'expect(lasted).toBeLessThanOrEqual(LIMIT);']],
    ['what a result says it took', ['expect(outcome.took).toBeLessThan(1_000);']],
    ['what is computed of it', ['const lasted = (Date.now() - began) / 1_000;', 'expect(lasted).toBeLessThan(5);']],
    ['what is not to be more', ['expect(took).not.toBeGreaterThan(1_000);']],
    ['what is on the other side', ['expect(limit).toBeGreaterThanOrEqual(took);']],
    ['a comparison that is to be true', ['expect(performance.now() - began < 5_000).toBe(true);']],
    ['one that is to be false', ['expect(took >= LIMIT).toBe(false);']],
    ['CPU', ['expect(process.cpuUsage(from).user).toBeLessThan(1_000);']],
  ])('refuses a ceiling on %s', (_, lines) => {
    expect(ceilingsIn(...lines)).toEqual([`a.spec.ts:${lines.length}: ${lines.at(-1)}`]);
  });

  it.each([
    ['a minute, which says "never"', ['expect(performance.now() - began).toBeLessThan(60_000);']],
    ['a floor', ['expect(performance.now() - began).toBeGreaterThan(1_000);']],
    ['a floor by another name', ['expect(took).not.toBeLessThan(20);', 'expect(20 < took).toBe(true);']],
    ['a time of day', ['const old = new Date(Date.now() - 1_000);', 'expect(old).toBeLessThan(limit);']],
    ['what waits for time', ['const n = await at(() => Date.now() - began > 9);', 'expect(n).toBeLessThan(9);']],
    ['a count', ['const began = Date.now();', 'expect(rows.length).toBeLessThan(10);']],
    ['what has a reason', ['expect(took).toBeLessThan(20); // clock: virtual']],
  ])('takes %s', (_, lines) => {
    expect(ceilingsIn(...lines)).toEqual([]);
  });
});
