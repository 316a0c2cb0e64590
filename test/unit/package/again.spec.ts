interface Result {
  readonly name: string;
  readonly status: string;
}
interface Again {
  again(
    files: readonly Result[],
    runAlone: (name: string) => Promise<Result | undefined>,
  ): Promise<{ files: Result[]; flaky: Result[] }>;
}

describe('files that fail in the gate', () => {
  const green = (name: string): Result => ({ name, status: 'passed' });
  const red = (name: string): Result => ({ name, status: 'failed' });
  let again: Again['again'];
  const ran: string[] = [];
  const alone = (status: string | undefined) => (name: string) => {
    ran.push(name);
    return Promise.resolve(status === undefined ? undefined : { name, status });
  };

  beforeAll(async () => {
    ({ again } = (await import('../../../tools/again.mjs' as string)) as Again);
  });
  beforeEach(() => ran.splice(0));

  it('run once more, each by itself: what is green then counts as green, and is told', async () => {
    const first = [green('a'), red('b'), red('c')];
    expect(await again(first, alone('passed'))).toEqual({
      files: [green('a'), green('b'), green('c')],
      flaky: [red('b'), red('c')],
    });
    expect(ran).toEqual(['b', 'c']);
  });

  it.each(['failed', undefined])('stay red where the second run is %s', async (status) => {
    expect(await again([green('a'), red('b')], alone(status))).toEqual({ files: [green('a'), red('b')], flaky: [] });
  });

  it('are no chance where there are more than three: none runs again', async () => {
    const first = ['a', 'b', 'c', 'd'].map(red);
    expect(await again(first, alone('passed'))).toEqual({ files: first, flaky: [] });
    expect(ran).toEqual([]);
  });
});
