import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { COMMANDS } from '../../lib/cli/commands.js';
import { outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { blocksIn, documents, isInstalled, ROOT } from './documents.js';
import { patchedBlocks } from './patches.js';
import { typeErrors } from './type-check.js';

const packageJson = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
  peerDependencies: Record<string, string>;
  devDependencies: Record<string, string>;
};
const readme = (): string => documents().find(({ path }) => path === 'README.md')?.text ?? '';

describe('the documents', () => {
  it.each(['default', 'es2023'] as const)(
    'hold TypeScript that compiles, libs: %s; nothing wrong gets past',
    (libs) => {
      const blocks = blocksIn('ts', '');
      expect(blocks.length).toBeGreaterThan(20);
      const wrong = {
        place: 'wrong.md:7',
        language: 'ts',
        info: '',
        file: undefined,
        text: 'const n: number = 1;\nawait outbox.enqueu(n);\n',
      };
      expect(typeErrors([...blocks, wrong], libs)).toEqual([
        expect.stringMatching(/^wrong\.md:9: Property 'enqueu' does not exist/),
      ]);
    },
    600_000,
  );

  it.each(['drizzle', 'prisma', 'mikro-orm', 'pg', 'own'])(
    'hold applications of another data layer that compile, one on each page: %s',
    (layer) => {
      const pages = documents().map(({ blocks }) => blocks.filter(({ info }) => info === layer));
      expect(pages.flat().length).toBeGreaterThan(0);
      for (const blocks of pages.filter(({ length }) => length > 0)) expect(typeErrors(blocks)).toEqual([]);
    },
  );

  it('hold changes of their files that apply and compile', () => {
    expect(blocksIn('diff').length).toBeGreaterThan(1);
    expect(typeErrors(patchedBlocks())).toEqual([]);
  });

  it('start what they call an entry', () => {
    const entries = blocksIn('ts').filter(({ text }) => /\bNestFactory\.create/.test(text));
    expect(entries.map(({ file }) => file)).toEqual([
      'src/main.ts',
      'src/billing/main.ts',
      'src/worker.ts',
      'src/entry.ts',
    ]);
    expect(entries.filter(({ text }) => !text.endsWith('\nvoid bootstrap();\n')).map(({ place }) => place)).toEqual([]);
  });

  it('name commands that exist', () => {
    const commands = blocksIn('bash').flatMap(({ text, place }) =>
      text
        .split('\n')
        .flatMap((line) => line.replace(/\s#.*$/, '').split('&&'))
        .map((command) => ({ command: command.trim(), place }))
        .filter(({ command }) => command !== ''),
    );
    expect(commands.length).toBeGreaterThan(5);
    expect(
      commands.map(({ command, place }) => problemOf(command) && `${place}: ${problemOf(command)}`).filter(Boolean),
    ).toEqual([]);
  });

  it('fence nothing that is neither checked nor plain', () => {
    const known = ['ts', 'diff', 'bash', 'sql', 'json', 'text'];
    const others = documents().flatMap(({ blocks }) => blocks.filter(({ language }) => !known.includes(language)));
    expect(others.map(({ place, language }) => `${place} ${language}`)).toEqual([]);
    for (const { info, place } of blocksIn('sql'))
      expect([place, info]).toEqual([place, expect.stringMatching(/^(postgres|mariadb)( strict)?$/)]);
    for (const { text } of blocksIn('json')) expect(JSON.parse(text)).toBeDefined();
  });

  it('link to what is there', () => {
    const dead = documents().flatMap(({ path, text }) =>
      [...outsideOfBlocks(text).matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, target]) => target as string)
        .filter((target) => !/^[a-z]+:/.test(target) && !isThere(path, target))
        .map((target) => `${path}: ${target}`),
    );
    expect(dead).toEqual([]);
  });

  it('link, where npm installs them, to what npm installs', () => {
    const installed = documents().filter(({ path }) => isInstalled(path));
    expect(installed.length).toBeGreaterThan(5);
    const dead = installed.flatMap(({ path, text }) =>
      [...outsideOfBlocks(text).matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
        .map(([, target]) => target as string)
        .filter((target) => !/^[a-z]+:/.test(target) && !isInstalled(join(dirname(path), target)))
        .map((target) => `${path}: ${target}`),
    );
    expect(dead).toEqual([]);
  });

  it('name tests that exist', () => {
    const named = documents().flatMap(({ path, text }) =>
      [...text.matchAll(/`((?:test|lib|bench|sample)\/[\w./-]+\.(?:spec|contract)?\.?ts)`/g)].map(([, file]) => ({
        path,
        file: file as string,
      })),
    );
    expect(named.length).toBeGreaterThan(20);
    expect(
      named.filter(({ file }) => !existsSync(join(ROOT, file))).map(({ path, file }) => `${path}: ${file}`),
    ).toEqual([]);
  });
});

describe('the README', () => {
  it('is read in a few minutes', () => {
    expect(Buffer.byteLength(readme())).toBeLessThanOrEqual(16 * 1024);
  });

  it.each(['npm ci && npm start', 'npm ci && npm test'])('has the command %j as a block of its own', (command) => {
    expect(
      blocksIn('bash').filter(({ place, text }) => place.startsWith('README.md:') && text === `${command}\n`),
    ).toHaveLength(1);
  });

  it('counts the tables', () => {
    const tables = outboxSql('postgres').up.match(/^create table /gm) ?? [];
    expect([tables.length, /(\w+) tables and one view/.exec(readme())?.[1]]).toEqual([10, 'Ten']);
  });

  it('names every option, error code and event somewhere in the documents', () => {
    const all = documents()
      .map(({ text }) => text)
      .join('\n');
    const source = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
    const codes = [...source('lib/outbox.errors.ts').matchAll(/^ {2}\| '([A-Z_]+)'/gm)].map(
      ([, code]) => code as string,
    );
    const events = [...source('lib/observe/events.ts').matchAll(/^ {2}(\w+): (?:RelayEvent & )?\{/gm)].map(
      ([, name]) => name as string,
    );
    expect([codes.length, events.length].every((count) => count > 10)).toBe(true);
    expect([...codes, ...events].filter((name) => !all.includes(`\`${name}\``))).toEqual([]);
  });
});

/** @returns what is wrong with a command, or undefined */
function problemOf(command: string): string | undefined {
  const [program, verb, ...rest] = command.split(/\s+/) as [string, string | undefined, ...string[]];
  if (program === 'npm' && verb === 'ci')
    return existsSync(join(ROOT, 'package-lock.json')) ? undefined : 'there is no package-lock.json';
  if (program === 'npm' && (verb === 'start' || verb === 'test')) return script(verb) ?? argument(verb, rest);
  if (program === 'npm' && verb === 'run') return script(rest[0] as string);
  if (program === 'npm' && verb === 'install') {
    const known = { ...packageJson.peerDependencies, ...packageJson.devDependencies };
    const names = rest.map((name) => name.replace(/(?<=.)@\d+$/, ''));
    return names.find((name) => name !== 'nestjs-outbox' && !Object.hasOwn(known, name));
  }
  if (program === 'npx' && verb === 'nestjs-outbox')
    return COMMANDS.some(({ name }) => name === rest[0]) ? undefined : `the command line has no ${rest[0]}`;
  return `unknown command: ${command}`;
}
/** Arguments of `npm start` are those of the quick start. */
function argument(verb: string, rest: readonly string[]): string | undefined {
  if (verb !== 'start') return undefined;
  const known = readFileSync(join(ROOT, 'sample/01-quick-start/src/demo/arguments.ts'), 'utf8');
  return rest.filter((word) => /^--\w/.test(word)).find((flag) => !known.includes(`${flag.slice(2)}: {`));
}
function script(name: string): string | undefined {
  return Object.hasOwn(packageJson.scripts, name) ? undefined : `package.json has no script ${name}`;
}

function outsideOfBlocks(text: string): string {
  return text.replace(/^```[\s\S]*?^```$/gm, '');
}

function isThere(from: string, target: string): boolean {
  const [path, anchor] = target.split('#') as [string, string?];
  const file = path === '' ? from : join(dirname(from), path);
  if (!existsSync(join(ROOT, file))) return false;
  if (anchor === undefined) return true;
  const headings = outsideOfBlocks(readFileSync(join(ROOT, file), 'utf8')).match(/^#+ .*$/gm) ?? [];
  return headings.some((heading) => slugOf(heading) === anchor);
}
function slugOf(heading: string): string {
  return heading
    .replace(/^#+ /, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');
}
