import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CITED, problemsOf } from './citations.js';
import { documents, isInstalled, ROOT } from './documents.js';

/** Pages of the repository that npm does not install. */
const REPOSITORY_ONLY = ['docs/design.md'];
/** The least number of statements of each page that have a proof. A page that is not here has none. */
const LEAST: Record<string, number> = {
  'README.md': 1,
  'cli-init.md': 3,
  'cli.md': 5,
  'debezium.md': 1,
  'design.md': 4,
  'errors.md': 1,
  'first-steps.md': 1,
  'guarantees.md': 6,
  'limits.md': 5,
  'metrics.md': 2,
  'nest-consumer.md': 1,
  'operations.md': 1,
  'options.md': 1,
  'processes.md': 3,
  'recipes.md': 1,
  'schema.md': 4,
  'security.md': 14,
  'tracing.md': 4,
  'transactions.md': 2,
  'transports/client-proxy.md': 3,
  'transports/kafka.md': 6,
  'transports/own.md': 1,
  'transports/rabbitmq.md': 6,
  'tuning.md': 3,
  'upgrading.md': 3,
  'versions.md': 1,
};
/** Files and folders that nobody has who installed the package. */
const OF_THE_REPOSITORY =
  /(?<![\w/.@-])(?:\.{1,2}\/)*(?:(?:test|lib|tools|bench|sample|etc|\.ci|internals|docs\/internals)\/|docs\/requirements\b|(?:docs\/)?design\.md|CONTRIBUTING\.md)[\w./-]*/g;

const pages = documents();
const textOf = (path: string): string => pages.find((page) => page.path === path)?.text ?? '';
const evidence = textOf('docs/internals/evidence.md');

/** @returns the cells of each row but the head, of the first table below a heading */
function rowsBelow(text: string, heading: string): string[][] {
  const [, section = ''] = text.split(`\n## ${heading}\n`);
  const lines = (section.split('\n## ')[0] as string).split('\n').filter((line) => line.startsWith('|'));
  return lines.slice(2).map((line) => line.slice(2, -2).split(' | '));
}

describe('docs/guarantees.md: what is promised', () => {
  const promises = rowsBelow(textOf('docs/guarantees.md'), 'What is promised');
  const proofs = rowsBelow(evidence, 'Promises');
  const all = proofs.map(([promise = '', tests = '']) => ({ promise, tests }));

  it('has each of them once, and says what each means', () => {
    expect(promises.length).toBeGreaterThanOrEqual(28);
    expect(new Set(promises.map(([promise]) => promise)).size).toBe(promises.length);
    expect(promises.filter((cells) => cells.length !== 2 || cells.includes(''))).toEqual([]);
  });

  it('has evidence for each of them, in the same order, and for nothing else', () => {
    expect(proofs.map(([promise]) => promise)).toEqual(promises.map(([promise]) => promise));
    expect(proofs.filter((cells) => cells.length !== 2)).toEqual([]);
  });

  it.each(all)('$promise: names tests that are there, by words of their titles', ({ promise, tests }) => {
    expect(tests).toMatch(CITED);
    expect(problemsOf(promise, tests)).toEqual([]);
  });

  it('holds on each database: the suites are there', () => {
    const suites = rowsBelow(evidence, 'On each database');
    expect(suites.map(([suite]) => suite)).toEqual(['of the store', 'of the relay']);
    for (const [, ...files] of suites) {
      expect(files).toHaveLength(3);
      expect(files.flatMap(missingIn)).toEqual([]);
    }
  });
});

describe('what the other pages state', () => {
  const statements = rowsBelow(evidence, 'Statements').map(([page = '', quoted = '', proof = '']) => ({
    page: /\]\((?:\.\.\/)+(.+)\)$/.exec(page)?.[1] ?? '',
    words: /^“(.+)”$/.exec(quoted)?.[1] ?? '',
    proof,
  }));
  const counts = new Map<string, number>();
  for (const { page } of statements) counts.set(page, (counts.get(page) ?? 0) + 1);

  it.each(Object.entries(LEAST))('%s: lost none of its proofs', (page, least) => {
    expect(counts.get(page)).toBeGreaterThanOrEqual(least);
  });

  it.each(statements)('$page, “$words”: stands there once, and its proof is there', ({ page, words, proof }) => {
    const path = page === 'README.md' ? page : `docs/${page}`;
    expect(isInstalled(path) || REPOSITORY_ONLY.includes(path)).toBe(true);
    expect(words.length).toBeGreaterThan(12);
    expect(textOf(path).replace(/\s+/g, ' ').split(words)).toHaveLength(2);
    expect(proof).toMatch(/^`[^`]+`(?:, `[^`]+`)*$/);
    expect(missingIn(proof)).toEqual([]);
  });
});

function missingIn(cell: string): string[] {
  const files = [...cell.matchAll(/`([^`]+)`/g)].map(([, file]) => file as string);
  return files.length === 0 ? [`nothing in ${cell}`] : files.filter((file) => !existsSync(join(ROOT, file)));
}

describe('what is packed', () => {
  const cited = (text: string): string[] => text.match(OF_THE_REPOSITORY) ?? [];

  it('cites no path of the repository', () => {
    const packed = pages.filter(({ path }) => isInstalled(path));
    expect(packed.length).toBeGreaterThan(25);
    expect(packed.flatMap(({ path, text }) => cited(text).map((what) => `${path}: ${what}`))).toEqual([]);
  });

  it.each([
    '`test/nest/module.spec.ts`',
    '(../../bench/results.md)',
    'see lib/time/',
    'CONTRIBUTING.md',
    '(internals/evidence.md)',
    '[why](design.md#the-floor)',
  ])('would be found out with %s', (text) => expect(cited(text)).toHaveLength(1));

  it.each(['nestjs-outbox/testing', './orders/order.js', '/usr/lib/x', 'src/test/x.ts'])('may have %s', (text) =>
    expect(cited(text)).toEqual([]),
  );
});
