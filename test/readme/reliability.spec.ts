import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CITED, problemsOf } from './citations.js';
import { documents, ROOT } from './documents.js';

/** The least number of rows of each letter of the failure catalogue. */
const LEAST: Record<string, number> = {
  A: 13,
  B: 16,
  C: 20,
  D: 9,
  E: 15,
  F: 8,
  G: 10,
  H: 16,
  I: 11,
  J: 11,
  K: 8,
  L: 15,
  M: 6,
  N: 6,
  O: 4,
  P: 7,
  Q: 8,
  R: 10,
  S: 3,
  T: 2,
  U: 2,
  V: 7,
  W: 7,
  X: 2,
  Z: 15,
};

interface Row {
  readonly failure: string;
  readonly happens: string;
  readonly tests: string;
}

const PAGES = /^docs\/(guarantees|limits|internals\/(failures\/\w+|mistakes))\.md$/;
const text = documents()
  .filter(({ path }) => PAGES.test(path))
  .map((document) => document.text)
  .join('\n');
const rows = new Map<string, Row>();
const IDS: string[] = [];
for (const [, id, failure, happens, tests] of text.matchAll(/^\| ([A-Z]\d+) \| (.*?) \| (.*?) \| (.*?) \|$/gm)) {
  IDS.push(id as string);
  rows.set(id as string, { failure: failure as string, happens: happens as string, tests: tests as string });
}

describe('docs/internals/failures: the failure catalogue', () => {
  it.each(Object.entries(LEAST))(
    '%s: has each row once, numbered without a gap, and none was taken out',
    (letter, least) => {
      const numbers = IDS.filter((id) => id.startsWith(letter)).map((id) => Number(id.slice(1)));
      expect(numbers).toEqual(numbers.map((_, index) => index + 1));
      expect(numbers.length).toBeGreaterThanOrEqual(least);
    },
  );

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
  return [...source.matchAll(/['"`]((?:[A-Z]\d+, )*[A-Z]\d+): [^\n]+/g)]
    .map(([title, ids]) => ({ title, ids: (ids as string).split(', ') }))
    .filter(({ ids }) => ids.includes(id))
    .map(({ title }) => title);
}

describe('docs/internals/mistakes.md', () => {
  /** How many each source has. */
  const counts = [24, 19, 13, 4, 32];
  const ids = counts.flatMap((count, source) => Array.from({ length: count }, (_, n) => `D${source}-${n + 1}`));
  const all = [...text.matchAll(/^\| (D\d-\d+) \| (.+?) \| (.+?) \|$/gm)];

  it('has each of them once', () => {
    expect(all.map(([, id]) => id).sort()).toEqual([...ids].sort());
  });

  it.each(ids)('%s names tests that are there, by words of their titles', (id) => {
    const answer = all.find((row) => row[1] === id)?.[3] as string;
    expect(answer).toMatch(CITED);
    expect(problemsOf(id, answer)).toEqual([]);
  });
});
