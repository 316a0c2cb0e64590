// @tier gate
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SEEDS } from '../simulation/seeds.js';

interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  readonly chaos?: object | false;
  readonly contract?: string;
  readonly every?: boolean;
  readonly onMysql?: boolean;
  readonly noScan?: true;
}
interface Verdict {
  readonly verdict: 'convicts' | 'acquits' | 'broke';
  readonly detail?: string;
}
interface KeptVerdicts {
  add(verdict: { control?: object; result?: object }): void;
  control(layer: string, what: string): object | undefined;
  result(name: string): object | undefined;
}
type Layers = { readonly layersFor: (mutant: Mutant) => readonly { readonly name: string }[] };
type Verdicts = Record<'ofContract' | 'ofSimulation' | 'ofChaos', (output: unknown, signs?: string[]) => Verdict>;

const load = async <T>(name: string): Promise<T> => (await import(`./${name}.mjs` as string)) as T;
const mutants = async (): Promise<readonly Mutant[]> => (await load<{ MUTANTS: Mutant[] }>('mutants')).MUTANTS;

describe('the mutants', () => {
  /** One that has lost its place would be convicted of nothing, and be missed only in the next long run. */
  it('each fits its place, once, and changes it', async () => {
    const all = await mutants();
    const places = ({ file, from }: Mutant): number => readFileSync(file, 'utf8').split(from).length - 1;
    expect(all.filter((mutant) => places(mutant) !== 1 || mutant.from === mutant.to).map(({ name }) => name)).toEqual(
      [],
    );
    expect(all.length).toBeGreaterThan(70);
  });

  it('each has a name of its own and a layer that can see it', async () => {
    const all = await mutants();
    const { layersFor } = await load<Layers>('layers');
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
    expect(
      all.filter(({ contract }) => contract !== undefined && !existsSync(contract)).map(({ name }) => name),
    ).toEqual([]);
    expect(all.filter((mutant) => layersFor(mutant).length === 0).map(({ name }) => name)).toEqual([]);
  });

  it('each kept seed is of one that the simulation judges', async () => {
    const { layersFor } = await load<Layers>('layers');
    const judged = (await mutants()).filter((mutant) => layersFor(mutant).some(({ name }) => name === 'simulation'));
    const wanted = new Map(judged.map(({ name, noScan }) => [name, noScan]));
    expect(
      SEEDS.filter(({ convictedBy, noScan }) => !wanted.has(convictedBy) || wanted.get(convictedBy) !== noScan),
    ).toEqual([]);
  });

  it('the control judges the innocent by every layer, once for each contract and set of servers', async () => {
    const { poison } = await load<{
      poison: (mutants: object[]) => { layer: { name: string }; what: string; mutant: object }[];
    }>('control');
    const given = [
      { file: 'lib/relay/read/a.ts', contract: 'one' },
      { file: 'lib/relay/read/a.ts', contract: 'one', chaos: false, noScan: true },
      { file: 'lib/relay/read/a.ts', contract: 'one', chaos: { signs: ['lost'] } },
      { file: 'lib/store/mysql/a.ts', contract: 'two', chaos: { store: 'mariadb' } },
      { file: 'lib/store/mysql/a.ts', contract: 'two', chaos: { store: 'mariadb', faults: ['relay-kill'] } },
      { file: 'lib/store/mysql/a.ts', contract: 'two', chaos: { ordering: 'strict' } },
      { file: 'lib/store/mysql/a.ts', contract: 'two', chaos: false },
    ];
    expect(poison(given).map(({ layer, what }) => `${layer.name} ${what}`.trim())).toEqual([
      'simulation',
      'simulation --no-scan',
      'contract one',
      'contract two',
      'chaos postgres × rabbitmq',
      'chaos mariadb × rabbitmq',
      'chaos mariadb × rabbitmq, relay-kill',
      'chaos postgres × rabbitmq, strict',
    ]);
    expect(poison(given).every(({ mutant }) => !('file' in mutant))).toBe(true);
  });
});

describe('with --on mysql', () => {
  it('the layer that MariaDB and MySQL share is judged by what runs on MySQL, and by nothing else', async () => {
    const { onMysql } = await load<{ onMysql: (mutants: readonly Mutant[]) => (Mutant & { tests: string })[] }>(
      'on-mysql',
    );
    const { layersFor } = await load<Layers>('layers');
    const judged = onMysql(await mutants());
    expect(judged.length).toBeGreaterThan(5);
    expect(
      judged.filter(
        (mutant) =>
          layersFor(mutant)
            .map(({ name }) => name)
            .join() !== 'contract',
      ),
    ).toEqual([]);
    // Whatever has MySQL in its path: a room that is moved takes its mutants along.
    const ofFamily = (await mutants()).filter(
      ({ file, contract, onMysql: applies }) =>
        /\/mysql/.test(file) && contract !== undefined && !contract.startsWith('test/unit/') && applies !== false,
    );
    const names = new Set(judged.map(({ name }) => name));
    expect(ofFamily.filter(({ name }) => !names.has(name)).map(({ name }) => name)).toEqual([]);
    const store = judged.find(({ name }) => name === 'mariadb-no-fence-on-park');
    expect(store).toMatchObject({
      contract: 'test/contract/store-mysql.spec.ts',
      tests: 'contract: four connections',
    });
  });
});

describe('a mutant before its layers', () => {
  interface Result {
    readonly by: string[];
    readonly broke?: string;
    readonly poison: { readonly layer: string; readonly seconds: number }[];
  }
  const [simulation, contract, chaos] = ['simulation', 'contract', 'chaos'].map((name) => ({ name }));
  async function judged(mutant: object, verdicts: Record<string, string>): Promise<Result> {
    const { convict } = await load<{ convict: (...given: unknown[]) => Promise<Result> }>('convict');
    const layers = [simulation, contract, chaos].filter((layer) => layer !== undefined && layer.name in verdicts);
    return convict(mutant, layers, ({ name }: { name: string }) =>
      Promise.resolve({ verdict: verdicts[name], detail: `by ${name}`, seconds: 0.5 }),
    );
  }

  it('the first that convicts ends it', async () => {
    const result = await judged({}, { simulation: 'acquits', contract: 'convicts', chaos: 'convicts' });
    expect(result).toMatchObject({ by: ['contract'], broke: undefined });
    expect(result.poison.map(({ layer }) => layer)).toEqual(['simulation', 'contract']);
  });

  it('one that broke neither convicts nor acquits', async () => {
    expect(await judged({}, { contract: 'broke', chaos: 'convicts' })).toMatchObject({
      by: ['chaos'],
      broke: undefined,
    });
    expect(await judged({}, { contract: 'broke', chaos: 'acquits' })).toMatchObject({
      by: [],
      broke: 'contract: by contract',
    });
  });

  it('of one for every layer, all must convict', async () => {
    const every = { every: true };
    expect(await judged(every, { contract: 'convicts', chaos: 'convicts' })).toMatchObject({
      by: ['contract', 'chaos'],
    });
    expect(await judged(every, { contract: 'convicts', chaos: 'acquits' })).toMatchObject({ by: [], broke: undefined });
    expect(await judged(every, { contract: 'acquits', chaos: 'convicts' })).toMatchObject({ by: [] });
    expect(await judged(every, { contract: 'convicts', chaos: 'broke' })).toMatchObject({ broke: 'chaos: by chaos' });
  });

  it('a kept seed that convicts nobody is told, whoever convicts instead', async () => {
    const { convict } = await load<{ convict: (...given: unknown[]) => Promise<Result> }>('convict');
    const verdicts: Record<string, object> = {
      simulation: { verdict: 'acquits', blindSeeds: [7] },
      contract: { verdict: 'convicts' },
    };
    const judge = ({ name }: { name: string }) => Promise.resolve(verdicts[name]);
    expect(await convict({}, [simulation, contract], judge)).toMatchObject({ by: ['contract'], blindSeeds: [7] });
  });

  it('chaos is tried on each database, each broker and each order, by mutants that it must convict there', async () => {
    const { serversOf, layersFor } = await load<Layers & { serversOf: (mutant: Mutant) => Record<string, string> }>(
      'layers',
    );
    const needed = (await mutants()).filter(
      (mutant) => mutant.every === true && layersFor(mutant).some(({ name }) => name === 'chaos'),
    );
    const count = (what: string, value: string): number =>
      needed.filter((mutant) => serversOf(mutant)[what] === value).length;
    expect(count('store', 'mariadb')).toBeGreaterThan(1);
    expect(count('broker', 'kafka')).toBeGreaterThan(0);
    expect(count('ordering', 'strict')).toBeGreaterThan(0);
    expect(needed.length).toBeGreaterThan(5);
  });

  it('the report tells who convicted, how fast, and for whom there was no judge but a contract', async () => {
    const { report } = await load<{ report: (given: object) => string }>('report');
    const results = [
      {
        name: 'one',
        judges: ['simulation', 'chaos'],
        ...(await judged({}, { simulation: 'acquits', chaos: 'convicts' })),
      },
      { name: 'two', judges: ['contract'], ...(await judged({}, { contract: 'convicts' })) },
      {
        name: 'three',
        judges: ['contract', 'chaos'],
        ...(await judged({ every: true }, { contract: 'convicts', chaos: 'acquits' })),
      },
    ].map((result) => ({ breaks: 'it', seconds: 1.5, ...result }));
    const text = report({ controls: [], results, settings: { histories: 1, seconds: 1 }, of: 3 });
    expect(text).toContain('2 of 3 convicted (chaos 1, contract 1)');
    expect(text).toContain('| `one` | it | chaos | 0.5 | 1.5 | simulation | by chaos |');
    expect(text).toContain('| `three` | it | **only contract** | 0.5 | 1.5 | chaos | by contract |');
    expect(text).toMatch(/## Judged by contracts alone\n\n1 of 3 had no other judge.*\n\n`two`\n/);
  });
});

describe('a run in parts', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'outbox-mutants-'))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('keeps good verdicts of the same sources, the last of each, and asks again for all others', async () => {
    const { Kept } = await load<{ Kept: new (file: string, sources: string, commit: string) => KeptVerdicts }>('kept');
    const file = join(folder, 'verdicts.jsonl');
    const first = new Kept(file, 'one', 'a');
    first.add({ control: { layer: 'contract', what: 'x', acquits: true } });
    first.add({ control: { layer: 'contract', what: 'y', acquits: false } });
    for (const [name, by, blindSeeds] of [
      ['good', ['chaos'], []],
      ['survived', [], []],
      ['blind', ['chaos'], [7]],
      ['mended', [], []],
      ['mended', ['contract'], []],
      ['lost', ['contract'], []],
      ['lost', [], []],
    ] as const)
      first.add({ result: { name, by, blindSeeds } });

    const next = new Kept(file, 'one', 'b');
    const names = ['good', 'survived', 'blind', 'mended', 'lost', 'never planted'];
    expect(names.filter((name) => next.result(name) !== undefined)).toEqual(['good', 'mended']);
    expect(['x', 'y', 'z'].filter((what) => next.control('contract', what) !== undefined)).toEqual(['x']);
    const ofOthers = new Kept(file, 'two', 'b');
    expect([ofOthers.result('good'), ofOthers.control('contract', 'x')]).toEqual([undefined, undefined]);
  });
});

describe('judges side by side', () => {
  interface SideBySide {
    readonly Slots: new (size: number) => { hold<T>(alone: boolean, work: () => Promise<T>): Promise<T> };
    readonly sideBySide: <I, R>(items: I[], jobs: number, work: (item: I) => Promise<R>) => Promise<R[]>;
  }

  it('as many as were asked for, but nothing beside the one that needs the machine, which nobody passes', async () => {
    const { Slots, sideBySide } = await load<SideBySide>('side-by-side');
    const slots = new Slots(2);
    const running = new Set<string>();
    const seen: string[] = [];
    const work = (name: string): Promise<string> =>
      slots.hold(name === 'chaos', async () => {
        running.add(name);
        seen.push([...running].join('+'));
        await new Promise(setImmediate);
        running.delete(name);
        return name;
      });
    const results = await sideBySide(['a', 'b', 'chaos', 'c', 'd'], 3, work);
    expect(results).toEqual(['a', 'b', 'chaos', 'c', 'd']);
    expect(seen).toEqual(['a', 'a+b', 'chaos', 'c', 'c+d']);
  });

  it('what fails gives its place back', async () => {
    const { Slots } = await load<SideBySide>('side-by-side');
    const slots = new Slots(1);
    await expect(slots.hold(true, () => Promise.reject(new Error('no server')))).rejects.toThrow('no server');
    expect(await slots.hold(false, () => Promise.resolve('next'))).toBe('next');
  });
});

describe('the verdict', () => {
  const one = (status: string, message?: string) => ({
    status,
    fullName: 'a store takes',
    failureMessages: message === undefined ? [] : [message],
  });
  const jestReport = (tests: object[], more: object = {}) => ({
    numRuntimeErrorTestSuites: 0,
    numPassedTests: tests.filter((test) => (test as { status: string }).status === 'passed').length,
    testResults: [{ message: 'Cannot find module', assertionResults: tests }],
    ...more,
  });

  it.each([
    ['a failed test convicts', jestReport([one('passed'), one('failed', 'no')]), 'convicts'],
    ['so does one that is alone', jestReport([one('failed', 'no')]), 'convicts'],
    ['so do all, each in its own way', jestReport([one('failed', 'a'), one('failed', 'b')]), 'convicts'],
    [
      'so do all by one assertion',
      jestReport([one('failed', 'Error: expect(received)'), one('failed', 'Error: expect(received)')]),
      'convicts',
    ],
    ['passed tests acquit', jestReport([one('passed'), one('pending')]), 'acquits'],
    ['a file that does not load does not', jestReport([], { numRuntimeErrorTestSuites: 1 }), 'broke'],
    ['nor one whose tests are all skipped', jestReport([one('pending')]), 'broke'],
    [
      'nor one in which all fail alike',
      jestReport([one('failed', 'ECONNREFUSED'), one('failed', 'ECONNREFUSED')]),
      'broke',
    ],
    ['nor no report', undefined, 'broke'],
  ])('of a contract: %s', async (_, output, expected) => {
    expect((await load<Verdicts>('verdicts')).ofContract(output).verdict).toBe(expected);
  });

  it.each([
    ['what is lost convicts', ['lost'], undefined, 'convicts'],
    ['beside other things too', ['memoryGrowth', 'publishAfterLease'], undefined, 'convicts'],
    ['memory alone does not', ['memoryGrowth', 'businessErrors', 'connectionLeaks', 'crashes'], undefined, 'acquits'],
    ['nor what this mutant is not about', ['stuck'], ['lost'], 'acquits'],
    ['nothing broken acquits', [], undefined, 'acquits'],
  ])('of a chaos run: %s', async (_, broken, signs, expected) => {
    const { ofChaos } = await load<Verdicts>('verdicts');
    expect(ofChaos({ code: 1, last: { broken, committed: 5 }, errors: '' }, signs).verdict).toBe(expected);
    expect(ofChaos({ code: 1, last: { broken, committed: 0 }, errors: '' }, signs).verdict).toBe('broke');
    expect(ofChaos({ code: 1, last: {}, errors: 'no server' }, signs).verdict).toBe('broke');
  });

  it.each([
    ['a violation convicts', { code: 1, last: { violations: 2, histories: 9, 'invariant 3': 2 } }, 'convicts'],
    ['so does a history without an end', { code: null, hangs: true, last: {} }, 'convicts'],
    ['none acquits', { code: 0, last: { violations: 0 } }, 'acquits'],
    ['a run that broke off does neither', { code: 1, last: {}, errors: 'TypeError' }, 'broke'],
  ])('of the simulation: %s', async (_, output, expected) => {
    expect((await load<Verdicts>('verdicts')).ofSimulation(output).verdict).toBe(expected);
  });
});
