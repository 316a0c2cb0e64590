import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Fast {
  readonly FAST: readonly string[];
  filesThatRanNothing(results: readonly { name: string; assertionResults: readonly { status: string }[] }[]): string[];
}

const ROOT = process.cwd();
const BROKERS = /\b(?:rabbitmq|kafka|redis|mqtt|nats)\b/;
/** What the tests of a file need, where they need servers: the first argument of `describeWith` and its like. */
const NEEDS = /^(?:for .*\n)? {0,2}describe(?:With|OnEach|OnFewer)\(\s*(\[[^\]]*\]|'[^']*'|\w+)/gm;

describe('npm run test:fast', () => {
  let fast: Fast;
  const files = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .map((name) => `test/${name.replaceAll('\\', '/')}`)
    .filter((name) => name.endsWith('.spec.ts'));
  const selected = (pattern: string): string[] => files.filter((file) => new RegExp(pattern).test(file));

  beforeAll(async () => {
    fast = (await import('../../../tools/fast.mjs' as string)) as Fast;
  });

  it('selects something with each of its patterns, and less than half of all', () => {
    expect(fast.FAST.filter((pattern) => selected(pattern).length === 0)).toEqual([]);
    expect(new Set(fast.FAST.flatMap(selected)).size).toBeLessThan(files.length / 2);
  });

  it('selects no file that has nothing to run without a broker', () => {
    const needy = (file: string): boolean => {
      const needs = [...readFileSync(join(ROOT, file), 'utf8').matchAll(NEEDS)].map(([, need]) => need as string);
      return needs.length > 0 && needs.every((need) => BROKERS.test(need));
    };
    expect(needy('test/readme/nest-consumer.spec.ts')).toBe(true);
    expect(fast.FAST.flatMap(selected).filter(needy)).toEqual([]);
  });

  it('fails over a file of which nothing ran', () => {
    const of = (name: string, ...statuses: string[]) => ({
      name,
      assertionResults: statuses.map((status) => ({ status })),
    });
    expect(
      fast.filesThatRanNothing([
        of('whole', 'passed'),
        of('part', 'pending', 'passed'),
        of('idle', 'pending'),
        of('e'),
      ]),
    ).toEqual(['idle']);
  });

  it('is a script that takes this list', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    expect(scripts['test:fast']).toBe('node tools/test.mjs --fast');
  });
});
