import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { planInit, TRANSPORTS, type TransportText } from '../../../lib/cli/init/additions.js';
import { writeAll, type Change } from '../../../lib/cli/init/edits.js';
import { openApplication } from '../../../lib/cli/init/project.js';
import { FIXTURES } from '../../cli/support/nest-fixtures.js';

const TYPESCRIPT = join(process.cwd(), 'node_modules/typescript');
const FILES = FIXTURES['a list of migrations, forRoot, CommonJS']?.files as Record<string, string>;

let folder: string;
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function make(files: Readonly<Record<string, string>>, packages: Readonly<Record<string, string>> = {}): void {
  folder = mkdtempSync(join(tmpdir(), 'outbox-plan-'));
  for (const [name, text] of Object.entries(files)) write(name, text);
  for (const [name, target] of Object.entries({ typescript: TYPESCRIPT, ...packages })) {
    mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true });
    symlinkSync(target, join(folder, 'node_modules', name));
  }
}
function write(name: string, text: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}
/** The files of the list fixture, with another text of one. */
const changed = (file: string, from: string, to: string): Record<string, string> => ({
  ...FILES,
  [file]: (FILES[file] as string).replace(from, () => to),
});
const plan = (asked: Readonly<Record<string, string>> = {}): readonly Change[] =>
  planInit(openApplication(folder, asked), TRANSPORTS['in-process'] as TransportText, true);
const planned = (file: string): string | undefined => plan().find(({ path }) => path === join(folder, file))?.after;

describe('planInit', () => {
  it.each(Object.entries(FIXTURES))('%s: changes what is to be changed, and nothing twice', (_, fixture) => {
    make(fixture.files);
    const asked = fixture.args === undefined ? {} : { project: fixture.args[1] as string };
    const changes = plan(asked);
    const withMigrations = changes.filter(({ after }) => after.includes('...outboxMigrations()'));
    expect(withMigrations.map(({ path }) => relative(folder, path)).sort()).toEqual([...fixture.changed].sort());
    writeAll(changes);
    expect(plan(asked)).toEqual([]);
  });

  it('keeps every other character of a file, its comments and its ends of lines', () => {
    const text = (FILES['src/app.module.ts'] as string).replaceAll('\n', '\r\n');
    make({ ...FILES, 'src/app.module.ts': text });
    const lines = (planned('src/app.module.ts') as string).split('\r\n');
    expect(lines.join('')).not.toContain('\n');
    expect(lines.filter((line) => !text.split('\r\n').includes(line))).toEqual([
      `import { outboxMigrations } from 'nestjs-outbox/typeorm';`,
      `import { OutboxModule, inProcess } from 'nestjs-outbox';`,
      `import { OutboxExample } from './outbox-example';`,
      '        ...outboxMigrations(),',
      '    OutboxModule.forRoot({ transports: { default: inProcess() } }),',
      '  providers: [AppService, OutboxExample],',
    ]);
  });

  it.each([
    ['new FastifyAdapter(),\n  ', 'AppModule,\n    new FastifyAdapter(), { forceCloseConnections: true },\n'],
    ['{ bufferLogs: true }', 'AppModule,\n    { bufferLogs: true, forceCloseConnections: true }'],
    ['{}', '{forceCloseConnections: true}'],
    ['adapter,\n  ', 'AppModule,\n    adapter,\n  )'],
  ])('adds to what the application is made with: %s', (given, after) => {
    make(changed('src/main.ts', 'create(AppModule)', `create(\n    AppModule,\n    ${given})`));
    const main = planned('src/main.ts');
    expect(main).toContain(after);
    expect(main).toContain(';\n  app.enableShutdownHooks();\n  await app.listen(');
  });

  const seven = { typescript: join(process.cwd(), 'node_modules/typescript7') };

  it.each(['@nestjs/cli/node_modules/typescript', '@typescript/typescript6'])(
    'reads with %s beside TypeScript 7',
    (six) => {
      make(FILES, { ...seven, [six]: TYPESCRIPT });
      expect(plan()).toHaveLength(3);
    },
  );

  it('refuses TypeScript 7 alone, and names what to install', () => {
    make(FILES, seven);
    expect(plan).toThrow('npm install --save-dev @typescript/typescript6.');
  });
});

describe('planInit: what it does not understand', () => {
  const MODULE = 'src/app.module.ts';
  const another = `${FILES['src/app.service.ts']}export const more = { type: 'mysql', url: '' };\n`;
  it.each<[string, Record<string, string>, string]>([
    ['a syntax that is wrong', changed(MODULE, 'export class', 'export klass'), `${MODULE}:19: the syntax is wrong.`],
    [
      'a type that is computed',
      changed(MODULE, `'postgres'`, 'process.env.TYPE as never'),
      'src/main.ts:1: the application has no TypeOrmModule',
    ],
    [
      'a database that holds no outbox',
      changed(MODULE, `'postgres'`, `'better-sqlite3'`),
      'src/main.ts:1: the application has no TypeOrmModule',
    ],
    ['a DataSource with a name', changed(MODULE, `url:`, `name: 'reports', url:`), 'has no TypeOrmModule'],
    [
      'a second DataSource',
      { ...FILES, 'src/app.service.ts': another },
      'src/app.service.ts:5: there are several DataSources',
    ],
    [
      'migrations that are no list',
      changed(MODULE, 'migrations: [', 'migrations: true ? [] : ['),
      `${MODULE}:11: init cannot see the list of migrations.`,
    ],
    [
      'a spread that may have migrations',
      changed(MODULE, 'migrations: [', '...{}, entities: ['),
      'init cannot see the list of migrations.',
    ],
    [
      'migrations that stand elsewhere',
      { ...FILES, 'src/more.ts': 'export const more = { migrations: [] };\n' },
      'src/more.ts:1: these migrations',
    ],
    [
      'a module that is made by a function',
      changed('src/main.ts', 'create(AppModule)', 'create(make(AppModule))'),
      'src/main.ts:5: init cannot see which class',
    ],
    [
      'imports that are no list',
      changed(MODULE, 'imports: [', 'imports: true ? [] : ['),
      'init cannot see the list of imports.',
    ],
    [
      'providers that are no list',
      changed(MODULE, 'providers: [AppService]', 'providers'),
      'init cannot see the list of providers.',
    ],
    [
      'an application without a name',
      changed('src/main.ts', 'const app = ', ''),
      'src/main.ts:5: the application has no name here.',
    ],
    ['a file without an application', { ...FILES, 'src/main.ts': '' }, 'src/main.ts:1: it has no NestFactory.create'],
    [
      'a name that is something else',
      changed(MODULE, '@Module', 'const inProcess = 1;\n\n@Module'),
      'the name inProcess stands for something else',
    ],
    ['an example that is there', { ...FILES, 'src/outbox-example.ts': '' }, 'outbox-example.ts is there already'],
  ])('refuses %s, and says what to write by hand', (_, files, text) => {
    make(files);
    expect(plan).toThrow(text);
    expect(plan).toThrow(
      /Nothing was changed\. By hand, add \.\.\.outboxMigrations\(\) to .*enableShutdownHooks\(\) to main\.ts/,
    );
  });
});

describe('writeAll: all files, or none', () => {
  const text = (name: string): string => readFileSync(join(folder, name), 'utf8');
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'outbox-write-'));
    write('a.ts', 'a');
  });

  it('writes changed files and new ones, and leaves nothing beside them', () => {
    writeAll([
      { path: join(folder, 'a.ts'), before: 'a', after: 'changed' },
      { path: join(folder, 'b.ts'), after: 'new' },
    ]);
    expect(['a.ts', 'b.ts'].map(text)).toEqual(['changed', 'new']);
    expect(readdirSync(folder)).toEqual(['a.ts', 'b.ts']);
  });

  it('changes no file when a later one cannot be written', () => {
    const changes = [
      { path: join(folder, 'a.ts'), before: 'a', after: 'changed' },
      { path: join(folder, 'missing', 'b.ts'), after: 'new' },
    ];
    expect(() => writeAll(changes)).toThrow('Nothing was changed: ');
    expect(text('a.ts')).toBe('a');
    expect(readdirSync(folder)).toEqual(['a.ts']);
  });
});
