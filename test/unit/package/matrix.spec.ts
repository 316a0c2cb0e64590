import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { documents, ROOT } from '../../readme/documents.js';

interface Result {
  readonly product: string;
  readonly version: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly date: string;
}
interface Cell {
  readonly name: string;
  readonly product: string;
  readonly suite: string;
}
interface Pages {
  versionLines(results: Record<string, Result>): string[];
  withVersionLines(page: string, lines: readonly string[]): string;
}

const read = <T>(file: string): T => JSON.parse(readFileSync(join(ROOT, 'test', 'matrix', file), 'utf8')) as T;
const { suites, cells } = read<{ suites: Record<string, string[]>; cells: Cell[] }>('matrix.json');
const results = read<Record<string, Result>>('results.json');
const clean = Object.values(results).filter(({ passed, failed, skipped }) => passed > 0 && failed + skipped === 0);

/** As pages name them, with the numbers that follow: `PostgreSQL 13`, `Node 20.19, 22.12 or 24`, `Kafka Connect 4.1`. */
const NAMED =
  /\b(Node|Nest|TypeORM|PostgreSQL|MariaDB|MySQL|RabbitMQ|Kafka|amqplib|PgBouncer|Debezium)((?: from)? \d+(?:\.\d+)*(?:(?:, | and | or | to )\d+(?:\.\d+)*)*)/g;
/** Named without a result of the matrix, and why that is right. One that has a result does not belong here. */
const OTHERWISE: Readonly<Record<string, string>> = {
  'Debezium 3.3.0': 'pinned in tools/services/kafka-connect/pom.xml, which the tests of that page start',
  'Kafka 3.9': 'not tested: the page says so',
  'MariaDB 10.6': 'not refused, and not tested: the README says so',
  'PgBouncer 1.21': 'it can keep statements since',
  'PostgreSQL 14': 'rights in the schema public are others since',
  'RabbitMQ 4': 'a limit of its own, which is the default for all',
};

/** In README and pages for users, each once. */
function named(): string[] {
  const texts = documents()
    .filter(({ path }) => !/requirements|design|internals|CHANGELOG/.test(path))
    .map(({ text }) => text);
  const all = texts.flatMap((text) =>
    [...text.matchAll(NAMED)].flatMap(([, product, numbers]) =>
      [...(numbers as string).matchAll(/\d+(\.\d+)*/g)].map(([number]) => `${product} ${number}`),
    ),
  );
  return [...new Set(all)].sort();
}

const isRun = (version: string): boolean =>
  clean.some((result) => `${result.product.replace('Apache ', '')} ${result.version}.`.startsWith(`${version}.`));

describe('the matrix', () => {
  it('has cells of known suites, each by one name, and specs that are there', () => {
    expect(new Set(cells.map(({ name }) => name)).size).toBe(cells.length);
    expect(cells.filter(({ suite }) => suites[suite] === undefined)).toEqual([]);
    const whole = Object.values(suites).flatMap((specs) => specs.filter((spec) => spec.endsWith('.ts')));
    expect(whole.filter((spec) => !existsSync(join(ROOT, spec)))).toEqual([]);
  });

  it('has results of its cells only, each with a date', () => {
    const names = cells.map(({ name }) => name);
    expect(Object.keys(results).filter((name) => !names.includes(name))).toEqual([]);
    expect(Object.values(results).filter(({ date }) => !/^20\d\d-\d\d-\d\d$/.test(date))).toEqual([]);
  });

  it('is what the page of versions lists', async () => {
    const pages = (await import('../../../tools/matrix-pages.mjs' as string)) as Pages;
    const page = readFileSync(join(ROOT, 'docs', 'versions.md'), 'utf8');
    expect(pages.withVersionLines(page, pages.versionLines(results))).toBe(page);
  });

  it('ran each version that README and pages name, or the page says that nobody did', () => {
    const versions = named();
    expect(versions.length).toBeGreaterThan(10);
    expect(versions.filter((version) => !isRun(version) && OTHERWISE[version] === undefined)).toEqual([]);
    expect(Object.keys(OTHERWISE).filter((version) => !versions.includes(version) || isRun(version))).toEqual([]);
  });
});
