import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

interface Mutant {
  readonly name: string;
}
interface Ended {
  readonly code: number | null;
  readonly errors: string;
  readonly last: Record<string, unknown>;
}
interface Judged {
  readonly verdict: string;
  readonly detail?: string;
  readonly blindSeeds: readonly number[];
}
interface Layer {
  judge(folder: string, mutant: Mutant, settings: object): Promise<Judged>;
}
type Planted = <T>(mutant: Mutant | undefined, work: (folder: string) => Promise<T>) => Promise<T>;

const load = async <T>(name: string): Promise<T> => (await import(`../mutants/${name}.mjs` as string)) as T;

/** In a tree with a bug of this name. */
async function withBug<T>(name: string, work: (folder: string, mutant: Mutant) => Promise<T>): Promise<T> {
  const { MUTANTS } = await load<{ MUTANTS: Mutant[] }>('mutants');
  const { planted } = await load<{ planted: Planted }>('plant');
  const mutant = MUTANTS.find((each) => each.name === name) as Mutant;
  return planted(mutant, (folder) => work(folder, mutant));
}

async function simulate(folder: string, ...args: string[]): Promise<Ended> {
  const program = ['--import', './tools/typescript.mjs', 'test/simulation/simulate.ts', '--workers', '1'];
  const child = spawn(process.execPath, [...program, ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  const code = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await code, errors, last: JSON.parse(output.trimEnd().split('\n').at(-1) as string) as Ended['last'] };
}

jest.setTimeout(900_000); // a ceiling: it takes as long as the processor is busy with others

describe('npm run simulate', () => {
  it('ends with one line of JSON', async () => {
    const { code, errors, last } = await simulate('.', '--histories', '10', '--seed', '7');
    expect(last).toMatchObject({ histories: 10, seed: 7, violations: 0, perSecond: expect.any(Number) as number });
    expect(errors).toBe('');
    expect(code).toBe(0);
  });

  it('tells of a violation its seed, the commit and a history that is cut down to it, and fails', async () => {
    const { code, errors, last } = await withBug('no-key-gate', (folder) =>
      simulate(folder, '--histories', '100', '--first', '--shrink', '600'),
    );
    expect(last['violations']).toBeGreaterThanOrEqual(1);
    expect(last['invariant 4']).toBeGreaterThanOrEqual(1);
    expect(code).toBe(1);
    const [, seed] = /^seed (\d+), commit .+:\n {2}invariant \d+: /m.exec(errors) ?? [];
    const [, parts, plan, trace] =
      new RegExp(`^seed ${seed}, cut down in \\d+ tries from (\\d+ parts to \\d+):\n(.*)\n([^]*)`, 'm').exec(errors) ??
      [];
    const [from, to] = String(parts).split(' parts to ').map(Number) as [number, number];
    expect(to).toBeLessThan(from);
    expect(JSON.parse(String(plan))).toMatchObject({ writers: expect.any(Array) as unknown[] });
    expect(trace).toMatch(/^ +\d+\.\d {2}relay \d\.1: starts$/m);
    expect(trace).toMatch(/^ +\d+\.\d {2}VIOLATION of invariant \d+: /m);
    expect(trace).toMatch(/\n {2}invariant \d+: .*\n$/);
  });
});

describe('a mutant before the simulation', () => {
  it('is convicted by a seed that is kept for it; one that acquits it is blind', async () => {
    const { SIMULATION } = await load<{ SIMULATION: Layer }>('layers');
    const seeds = [
      { seed: 841, convictedBy: 'no-key-gate' }, // there is no key in it
      { seed: 304, convictedBy: 'no-key-gate' },
      { seed: 7, convictedBy: 'another' },
    ];
    const judged = await withBug('no-key-gate', (folder, mutant) =>
      SIMULATION.judge(folder, mutant, { histories: '1', seeds }),
    );
    expect(judged).toMatchObject({ verdict: 'convicts', blindSeeds: [841] });
    expect(judged.detail).toMatch(/^kept seed 304: .*invariant 4/);
  });
});
