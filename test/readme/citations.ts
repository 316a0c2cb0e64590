import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './documents.js';

/** A file, and words of titles in it: `file.ts` › “words of one”, “words of another”. */
export const CITED = /`((?:test|lib|sample)\/[^`]+\.ts)`(?: › (“[^”]+”(?:, “[^”]+”)*))?/;

/** @returns what the citations of a row name and is not there */
export function problemsOf(id: string, answer: string): string[] {
  return [...answer.matchAll(new RegExp(CITED, 'g'))].flatMap(([, file = '', quoted = '']) => {
    if (!existsSync(join(ROOT, file))) return [`${id}: ${file} is missing`];
    const titles = [...quoted.matchAll(/“([^”]+)”/g)].map(([, words]) => words as string);
    // Files of test/types are compiled: they have no titles.
    const isTest = /^(test\/(?!types\/)|sample\/|lib\/testing\/)/.test(file);
    if (titles.length === 0) return isTest ? [`${id}: no title follows ${file}`] : [];
    const literals = literalsOf(file);
    return titles
      .map((words) => ({ words, count: literals.filter((literal) => literal.includes(words)).length }))
      .filter(({ count }) => count !== 1)
      .map(({ words, count }) => `${id}: ${count} titles, not one, of ${file} have “${words}”`);
  });
}

/** String literals as they stand in the source, but for those in comments. */
function literalsOf(file: string): string[] {
  const source = readFileSync(join(ROOT, file), 'utf8').replace(/^\s*\/\/.*$/gm, '');
  return [...source.matchAll(/(['"`])((?:\\.|(?!\1).)*)\1/g)].map(([, , text]) => text as string);
}
