import { existsSync, readFileSync } from 'node:fs';
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

/** System → the ids of its rows, in their order. */
const WANTED = JSON.parse(readFileSync(join(__dirname, 'requirement-ids.json'), 'utf8')) as Record<string, string[]>;
const MISTAKES = 'docs/internals/mistakes.md';
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
const ofSystem = (system: string): string[] =>
  rows.filter(({ id }) => id === `${system}${id.slice(system.length)}`).map(({ id }) => id);

describe('docs/requirements: the rows', () => {
  it('are of all systems, and as many as there were', () => {
    expect(Object.entries(WANTED).map(([system, ids]) => [system, ids.length])).toEqual([
      ['S0', 71],
      ['S1', 58],
      ['S2', 29],
      ['S3', 43],
      ['S4', 88],
      ['C', 32],
      ['D0', 24],
      ['D1', 19],
      ['D2', 13],
      ['D3', 4],
      ['D4', 32],
    ]);
  });

  it.each(Object.entries(WANTED).filter(([system]) => !system.startsWith('D')))(
    '%s: has each of its rows once, in order, and no other',
    (system, ids) => expect(ofSystem(system)).toEqual(ids),
  );

  it('D: each mistake of the systems has its row among the mistakes', () => {
    const found = [...textOf(MISTAKES).matchAll(/^\| (D\d-\d+) \|/gm)].map(([, id]) => id as string);
    const wanted = Object.entries(WANTED).flatMap(([system, ids]) => (system.startsWith('D') ? ids : []));
    expect(found.sort()).toEqual(wanted.sort());
  });

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
