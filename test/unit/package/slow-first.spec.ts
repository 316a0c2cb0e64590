interface Test {
  readonly path: string;
  readonly duration?: number;
}
interface SlowFirst {
  slowFirst(tests: readonly Test[], seconds: Record<string, number>, root: string): Test[];
}

describe('the order of the files', () => {
  it('begins with what took longest, here or elsewhere, and guesses of what nobody measured', async () => {
    const { slowFirst } = (await import('../../support/slow-first.mjs' as string)) as SlowFirst;
    const tests = [
      { path: '/project/test/unit/a.spec.ts' },
      { path: '/project/test/unit/measured.spec.ts' },
      { path: '/project/sample/07/shop.spec.ts' },
      { path: '/project/test/integration/relay/new.spec.ts' },
      { path: '/project/test/processes/quick.spec.ts', duration: 2_000 },
      { path: '/project/test/package/nest-12-esm.spec.ts' },
      { path: '/project/test/unit/remembered.spec.ts', duration: 100_000 },
    ];
    const seconds = { 'test/unit/measured.spec.ts': 30, 'test/package/nest-12-esm.spec.ts': 90 };
    expect(slowFirst(tests, seconds, '/project').map(({ path }) => path.replace(/^.*\/|\.spec\.ts$/g, ''))).toEqual([
      ...['remembered', 'nest-12-esm', 'measured', 'shop', 'new', 'quick', 'a'],
    ]);
  });
});
