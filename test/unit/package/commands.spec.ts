import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = process.cwd();
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> };

function run(...command: string[]): string {
  const [name = '', ...args] = command;
  const { status, stdout, stderr } = spawnSync(name, args, { encoding: 'utf8', cwd: ROOT });
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  return stdout;
}
const runJest = (...args: string[]): string => run(process.execPath, 'node_modules/jest/bin/jest.js', ...args);
/** What the script gives to Jest behind `tools/test.mjs`, which brings up servers first. */
const behindServers = (name: string): string[] =>
  (scripts[name] ?? '').replaceAll('"', '').replace('--tier all ', '').split(' ').slice(2);
const files = (list: string): string[] =>
  list
    .split('\n')
    .filter((line) => line !== '')
    .map((file) => file.slice(ROOT.length + 1).replaceAll('\\', '/'))
    .sort();

describe('npm run test:unit, test:integration and coverage', () => {
  const specs = ['test', 'sample']
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
    )
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.spec.ts') && !name.includes('/node_modules/'))
    .sort();

  it('share the tests: each runs in one of the two, and coverage has all', () => {
    const unit = files(run('npm', 'run', '-s', 'test:unit', '--', '--listTests'));
    const integration = files(runJest('--listTests', ...behindServers('test:integration')));
    expect(unit).toEqual(specs.filter((file) => file.startsWith('test/unit/')));
    expect([...unit, ...integration].sort()).toEqual(specs);
    expect(files(runJest('--listTests', ...behindServers('coverage')))).toEqual(specs);
  });

  it('bring up servers for what needs them', () => {
    expect(scripts['test:unit']).toMatch(/^jest /);
    for (const name of ['test:integration', 'coverage']) expect(scripts[name]).toMatch(/^node tools\/test\.mjs /);
  });

  it('coverage counts the lines of the library that ran', () => {
    const directory = mkdtempSync(join(tmpdir(), 'outbox-coverage-'));
    try {
      runJest('--coverageDirectory', directory, ...behindServers('coverage'), 'test/unit/time/duration.spec.ts');
      const summary = JSON.parse(readFileSync(join(directory, 'coverage-summary.json'), 'utf8')) as Record<
        string,
        { lines: { pct: number } }
      >;
      const of = (file: string): number | undefined => summary[join(ROOT, file)]?.lines.pct;
      expect(of('lib/time/duration.ts')).toBeGreaterThan(90);
      expect(of('lib/relay/dispatcher.ts')).toBe(0);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});
