import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BROKERS } from '../../support/services.js';

interface Tiers {
  tierOf(name: string, source: string): string;
  filesOf(tier: string, root: string): string[];
  specsOf(root: string): string[];
}

const ROOT = process.cwd();
const BROKER = new RegExp(`\\b(?:${BROKERS.join('|')})\\b`);
/** What the tests of a file need, where they need servers: the first argument of `describeWith` and its like. */
const NEEDS = /^(?:for .*\n)? {0,2}describe(?:With|OnEach|OnFewer)\(\s*(\[[^\]]*\]|'[^']*'|\w+)/gm;

describe('the tier of a file of tests', () => {
  let tiers: Tiers;

  beforeAll(async () => {
    tiers = (await import('../../../tools/tiers.mjs' as string)) as Tiers;
  });

  it('is in its first line, or hangs on its folder', () => {
    expect(tiers.tierOf('test/unit/a.spec.ts', 'import {} from "a";\n')).toBe('fast');
    expect(tiers.tierOf('test/contract/a.spec.ts', 'import {} from "a";\n')).toBe('gate');
    expect(tiers.tierOf('test/integration/a.spec.ts', 'import {} from "a";\n')).toBe('all');
    expect(tiers.tierOf('test/unit/a.spec.ts', '// @tier all\nimport {} from "a";\n')).toBe('all');
    expect(() => tiers.tierOf('test/unit/a.spec.ts', '// @tier slow\n')).toThrow(
      'test/unit/a.spec.ts: no tier is called slow: fast, gate, all',
    );
  });

  it('lets each command run what the one before it runs, and the last one everything', () => {
    const [fast, gate, all] = ['fast', 'gate', 'all'].map((tier) => new Set(tiers.filesOf(tier, ROOT)));
    expect([...all!]).toEqual(tiers.specsOf(ROOT));
    expect([...fast!].filter((file) => !gate!.has(file))).toEqual([]);
    expect([...gate!].filter((file) => !all!.has(file))).toEqual([]);
    expect(fast!.size).toBeLessThan(gate!.size);
    expect(gate!.size).toBeLessThan(all!.size);
  });

  it('is fast for no file that has nothing to run without a broker', () => {
    const needy = (file: string): boolean => {
      const needs = [...readFileSync(join(ROOT, file), 'utf8').matchAll(NEEDS)].map(([, need]) => need as string);
      return needs.length > 0 && needs.every((need) => BROKER.test(need));
    };
    expect(needy('test/readme/nest-consumer.spec.ts')).toBe(true);
    expect(tiers.filesOf('fast', ROOT).filter(needy)).toEqual([]);
  });
});
