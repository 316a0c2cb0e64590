import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './documents.js';

/** The rows of each letter of the failure catalogue in docs/reliability.md. */
const ROWS: Record<string, number> = { A: 13, B: 11, C: 18, D: 8, E: 12, F: 8, G: 10 };
const IDS = Object.entries(ROWS).flatMap(([letter, count]) =>
  Array.from({ length: count }, (_, index) => `${letter}${index + 1}`),
);

interface Row {
  readonly failure: string;
  readonly happens: string;
  readonly tests: string;
}

const text = readFileSync(join(ROOT, 'docs', 'reliability.md'), 'utf8');
const rows = new Map<string, Row>();
for (const [, id, failure, happens, tests] of text.matchAll(/^\| ([A-G]\d+) \| (.*?) \| (.*?) \| (.*?) \|$/gm))
  rows.set(id as string, { failure: failure as string, happens: happens as string, tests: tests as string });

describe('docs/reliability.md: the failure catalogue', () => {
  it('has every row once', () => {
    expect([...rows.keys()].sort()).toEqual([...IDS].sort());
  });

  it.each(IDS)('%s names tests that carry its number, or says why there is none', (id) => {
    const { tests, happens } = rows.get(id) as Row;
    const files = [...tests.matchAll(/`((?:test|lib|sample)\/[^`]+\.ts)`/g)].map(([, file]) => file as string);
    if (files.length === 0) {
      expect(tests).toMatch(/^not here: .{20,}/);
      return;
    }
    expect(happens).not.toBe('');
    for (const file of files) {
      expect(existsSync(join(ROOT, file)) ? file : `${file} is missing`).toBe(file);
      expect(titlesWith(id, file)).not.toEqual([]);
    }
  });
});

/** Titles such as `'A5: …'` or `'C1, C2: …'`. */
function titlesWith(id: string, file: string): string[] {
  const source = readFileSync(join(ROOT, file), 'utf8');
  return [...source.matchAll(/['"`]((?:[A-G]\d+, )*[A-G]\d+): [^\n]+/g)]
    .map(([title, ids]) => ({ title, ids: (ids as string).split(', ') }))
    .filter(({ ids }) => ids.includes(id))
    .map(({ title }) => title);
}

describe('docs/reliability.md: old mistakes', () => {
  /** How many each source has. */
  const counts = [24, 19, 13, 4, 32];
  const ids = counts.flatMap((count, source) => Array.from({ length: count }, (_, n) => `D${source}-${n + 1}`));
  const all = [...text.matchAll(/^\| (D\d-\d+) \| (.+?) \| (.+?) \|$/gm)];

  it('has each of them once', () => {
    expect(all.map(([, id]) => id).sort()).toEqual([...ids].sort());
  });

  it.each(ids)('%s names tests that are there', (id) => {
    const answer = all.find((row) => row[1] === id)?.[3] as string;
    const files = [...answer.matchAll(/`((?:test|lib|sample)\/[^`]+\.ts)`/g)].map(([, file]) => file as string);
    expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
    expect(files.length).toBeGreaterThan(0);
  });
});

describe('docs/reliability.md: weaknesses seen elsewhere', () => {
  const all = [...text.matchAll(/^\| P-(\d+) \| (.+?) \| (.+?) \|$/gm)].map(([, n, mistake, answer]) => ({
    id: `P-${n}`,
    mistake: mistake as string,
    answer: answer as string,
  }));

  it('are numbered without a gap, and none stands there twice', () => {
    expect(all.length).toBeGreaterThan(0);
    expect(all.map(({ id }) => id)).toEqual(all.map((_, index) => `P-${index + 1}`));
    expect(text.match(/^\| P-/gm)).toHaveLength(all.length);
    expect(new Set(all.map(({ mistake }) => mistake)).size).toBe(all.length);
  });

  it.each(all)('$id names tests that are there, or says that it is so here', ({ answer }) => {
    const files = [...answer.matchAll(/`((?:test|lib|sample)\/[^`]+\.ts)`/g)].map(([, file]) => file as string);
    expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
    if (files.length === 0) expect(answer).toMatch(/\[not promised\]\(#not-promised\)$/);
  });
});
