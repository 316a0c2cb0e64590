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
  readonly commit?: string;
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

/** What has versions, as the pages call it. */
const PRODUCTS = [
  ...['Node', 'Nest', 'TypeORM', 'TypeScript', 'PostgreSQL', 'MariaDB', 'MySQL', 'PgBouncer', 'RabbitMQ', 'Kafka'],
  ...['Debezium', 'Connect', 'Java', 'Maven', 'Redis', 'NATS', 'MQTT', 'Prometheus', 'Grafana', 'Fastify', 'Express'],
  ...['kafkajs', 'amqplib', 'prom-client', 'mysql2', 'pg', 'ioredis', 'rxjs', 'nestjs-cls', 'typeorm-transactional'],
  ...['@nestjs/\\w+', '@opentelemetry/[\\w-]+', '[Tt]erminus', 'OpenTelemetry'],
];
/** With the numbers that follow: `PostgreSQL 13 to 18`, `Node 20.19, 22.12 or 24`, `Kafka Connect 4.1`. */
const NUMBER = String.raw`\d+(?:\.\d+)*(?![\w.:-]*\d)`;
const NAMED = new RegExp(
  String.raw`(?<![\w/@.-])(${PRODUCTS.join('|')})((?: from)? ${NUMBER}(?:(?:, | and later, | and | or | to )${NUMBER})*)`,
  'g',
);
/** Packages that are installed here: the gate runs on their versions. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = { TypeScript: ['typescript', 'typescript7'] };
/** Named without a run, and why that is right. One that has a run does not belong here. */
const OTHERWISE: Readonly<Record<string, string>> = {
  '@nestjs/microservices 11': 'installed beside Nest 11, in test/package',
  '@nestjs/terminus 11': 'installed beside Nest 11, in test/package',
  'Connect 4.1': 'what Debezium 3.3.0 brings along: the cell of Debezium runs in it',
  'Debezium 3.3.0': 'pinned in tools/services/kafka-connect/pom.xml, which the tests of that page start',
  'Java 17': 'what the gate installs, and Kafka needs',
  'Kafka 3.9': 'not tested: the page says so',
  'kafkajs 1': 'the choice of partitions that it made, which another release is told to make',
  'pg 8.11': 'the contract of data layers ran on 8.11.0 on 30 November 2026, by hand',
  'mysql2 3.9': 'the contract of data layers ran on 3.9.0 on 30 November 2026, by hand',
  'MariaDB 10.6': 'not refused, and not tested: the README says so',
  'MQTT 3.1.1': 'of the protocol: refused, and test/integration/mqtt shows it',
  'MQTT 5.0': 'of the protocol: each Mosquitto of the tests speaks it',
  'MySQL 8.4': 'what another module runs on, in compared.md',
  'MySQL 9': 'what another module runs on, in compared.md',
  'Nest 10': 'what another module runs on, in compared.md',
  'Node 24.9': 'what Jest asks for, to load ES modules by require',
  'PgBouncer 1.21': 'it can keep statements since',
  'PostgreSQL 14': 'rights in the schema public are others since',
  'RabbitMQ 4': 'a limit of its own, which is the default for all',
};

/** In README and pages for users, each once. */
function named(): string[] {
  const texts = documents()
    .filter(({ path }) => !/requirements|design|internals|CHANGELOG/.test(path))
    .map(({ text }) => text);
  const all = texts.flatMap(namedIn);
  return [...new Set(all)].sort();
}

/** In cells of a table and between quotes too. */
function namedIn(text: string): string[] {
  return [
    ...text
      .replace(/[`|()*[\]]+/g, ' ')
      .replace(/ +/g, ' ')
      .matchAll(NAMED),
  ].flatMap(([, product, numbers = '']) => {
    const found = [...numbers.matchAll(/\d+(\.\d+)*/g)].map(([number]) => number);
    const between = [...numbers.matchAll(/(\d+) to (\d+)/g)].flatMap(([, from, to]) => wholeBetween(from, to));
    return [...found, ...between].map((number) => `${product} ${number}`);
  });
}

/** Whoever names `13 to 18` names those between too. */
function wholeBetween(from: unknown, to: unknown): string[] {
  return Array.from({ length: Number(to) - Number(from) }, (_, n) => `${Number(from) + n}`);
}

function isRun(version: string): boolean {
  const [product = ''] = version.split(' ');
  const installed = (PACKAGES[product] ?? [product]).map((name) => `${product} ${installedVersion(name)}`);
  const results = clean.map((result) => `${result.product.replace('Apache ', '')} ${result.version}`);
  return [...installed, ...results].some((ran) => `${ran}.`.startsWith(`${version}.`));
}

function installedVersion(name: string): string {
  const manifest = join(ROOT, 'node_modules', name, 'package.json');
  return existsSync(manifest) ? (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version : 'none';
}

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

  it('has the commit beside each result, since it writes one', () => {
    const later = Object.values(results).filter(({ date }) => date > '2026-11-25');
    expect(later.filter(({ commit = '' }) => !/^[0-9a-f]{12}( and changes)?$/.test(commit))).toEqual([]);
  });

  it('has the same files of the store on MariaDB and MySQL', () => {
    const own = (kind: 'mariadb' | 'mysql'): string[] =>
      (suites[kind] ?? []).filter((spec) => spec.startsWith('test/integration/mysql/')).sort();
    expect(own('mysql')).toEqual(
      own('mariadb')
        .map((spec) => spec.replace('-mariadb.', '-mysql.'))
        .sort(),
    );
  });

  it('finds versions in tables and code, and each between two', () => {
    expect(namedIn('| databases | PostgreSQL 13 to 15, MySQL 8.0.15 |')).toEqual([
      ...['PostgreSQL 13', 'PostgreSQL 15', 'PostgreSQL 13', 'PostgreSQL 14', 'MySQL 8.0.15'],
    ]);
    expect(namedIn('| TypeORM | 0.3.20 and later, 1 |')).toEqual(['TypeORM 0.3.20', 'TypeORM 1']);
    expect(namedIn('(`kafkajs` 2), `@nestjs/terminus`, 11')).toEqual(['kafkajs 2']);
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
