import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CITED, problemsOf } from './citations.js';
import { documents, ROOT } from './documents.js';

const VERDICTS = ['holds', 'replaced', 'in part', 'not'] as const;
type Verdict = (typeof VERDICTS)[number];
interface Row {
  readonly id: string;
  readonly page: string;
  readonly says: string;
  readonly verdict: Verdict;
  readonly shownBy: string;
}

/** The ids of the rows of each system, in their order. Those of D, mistakes of the systems, are counted by reliability.spec.ts. */
const WANTED = {
  S0: numbered('S0-', 71),
  S1: numbered('S1-', 58),
  S2: numbered('S2-', 29),
  S3: numbered('S3-', 43),
  S4: [...numbered('S4-', 75), ...numbered('S4-U', 13)],
  C: numbered('C', 32),
};
const pages = documents();
const textOf = (path: string): string => pages.find((page) => page.path === path)?.text ?? '';
const overview = textOf('docs/requirements.md');
const rows: Row[] = pages
  .filter(({ path }) => path.startsWith('docs/requirements/'))
  .flatMap(({ path: page, text }) =>
    [...text.matchAll(/^\| ([SC][\w-]+) \| (.+?) \| (.+?) \| (.+?) \|$/gm)].map(
      ([, id = '', says = '', verdict, shownBy = '']) => ({ id, page, says, verdict: verdict as Verdict, shownBy }),
    ),
  );
function numbered(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${n + 1}`);
}
const ofSystem = (system: string): string[] =>
  rows.filter(({ id }) => id === `${system}${id.slice(system.length)}`).map(({ id }) => id);

describe('docs/requirements: the rows', () => {
  it.each(Object.entries(WANTED))('%s: has each of its rows once, in order, and no other', (system, ids) =>
    expect(ofSystem(system)).toEqual(ids),
  );

  it('have no cell too many, and none that looks like a row and is none', () => {
    const lines = pages
      .filter(({ path }) => path.startsWith('docs/requirements/'))
      .flatMap(({ text }) => text.split('\n').filter((line) => /^\| ?[SC]\d/.test(line)));
    expect(lines.filter((line) => line.split(' | ').length !== 4)).toEqual([]);
    expect(lines).toHaveLength(rows.length);
  });

  it.each(rows)('$id: has a verdict, one sentence, and what shows it', (row) => {
    expect(VERDICTS).toContain(row.verdict);
    expect(row.says).toMatch(/^[A-Z“`].{15,}\.$/);
    // Of what is not here nothing can be shown; all else has a test, or is a page.
    if (row.verdict === 'not') expect(row.shownBy).toBe('—');
    else if (!/^\[[^\]]+\]\([^)]+\)/.test(row.shownBy)) expect(row.shownBy).toMatch(CITED);
    expect(problemsOf(row.id, row.shownBy)).toEqual([]);
  });

  it.each(rows.filter(({ says }) => /^As [SC]/.test(says)))(
    '$id: is as a row that there is',
    ({ id, says, verdict }) => {
      for (const [other] of (says.split(':')[0] as string).matchAll(/[SC][\w-]+\d/g)) {
        const same = rows.find((row) => row.id === other);
        expect([id, other, same?.verdict]).toEqual([id, other, verdict]);
      }
    },
  );
});

describe('docs/requirements.md', () => {
  const counted = [...overview.matchAll(/^\| \[.+?\]\((requirements\/\w+\.md)\) \| (\d+(?: \| \d+){4}) \|$/gm)];

  it('counts the verdicts of each page', () => {
    expect(counted).toHaveLength(6);
    for (const [, page = '', numbers = ''] of counted) {
      const mine = rows.filter((row) => row.page === `docs/${page}`);
      const counts = VERDICTS.map((verdict) => mine.filter((row) => row.verdict === verdict).length);
      expect([page, numbers]).toEqual([page, [mine.length, ...counts].join(' | ')]);
    }
  });

  it('names files that are there', () => {
    const files = [...overview.matchAll(/`((?:test|lib|sample|tools)\/[^`*]+\.\w+)`/g)].map(
      ([, file]) => file as string,
    );
    expect(files.length).toBeGreaterThan(40);
    expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  });

  it('is pages of at most 30 kB', () => {
    const large = pages.filter(
      ({ path, text }) => path.startsWith('docs/requirements') && Buffer.byteLength(text) > 30_000,
    );
    expect(large.map(({ path }) => path)).toEqual([]);
  });
});
