import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { planInit, TRANSPORTS, type TransportText } from '../../../lib/cli/init/additions.js';
import { writeAll, type Change } from '../../../lib/cli/init/edits.js';
import { openApplication } from '../../../lib/cli/init/project.js';
import { COMMON_JS, ES_MODULES } from '../../cli/support/nest-fixtures.js';

type Files = Readonly<Record<string, string>>;

const TYPESCRIPT = process.env['OUTBOX_TEST_TYPESCRIPT'] ?? join(process.cwd(), 'node_modules/typescript');
const MAIN = 'src/main.ts';
const MODULE = 'src/app.module.ts';
const OTHER = 'src/other.ts';

let folder: string;
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function make(files: Files, packages: Files = {}): void {
  folder = mkdtempSync(join(tmpdir(), 'outbox-plan-'));
  const fileOf = (name: string): string => {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    return join(folder, name);
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(fileOf(name), text);
  for (const [name, target] of Object.entries({ typescript: TYPESCRIPT, ...packages }))
    symlinkSync(target, fileOf(`node_modules/${name}`));
}
const plan = (asked: Files = {}): readonly Change[] =>
  planInit(openApplication(folder, asked), TRANSPORTS['in-process'] as TransportText, true);
const planned = (file: string): string => String(plan().find(({ path }) => path === join(folder, file))?.after);
/** With another text in one of the files. */
const changed = (file: string, from: string | RegExp, to: string): Files => ({
  ...COMMON_JS,
  [file]: String(COMMON_JS[file]).replace(from, () => to),
});
const options = (imports: string): string =>
  String(changed(MODULE, /TypeOrmModule.forRoot\([^]*?\}\)/, imports)[MODULE]);
const POSTGRES = `{ type: 'postgres', url: '' }`;

const MONOREPO = {
  'nest-cli.json': JSON.stringify({
    root: 'apps/shop',
    sourceRoot: 'apps/shop/src',
    projects: {
      shop: { type: 'application', root: 'apps/shop', sourceRoot: 'apps/shop/src' },
      admin: { type: 'application', root: 'apps/admin', sourceRoot: 'apps/admin/src' },
      database: { type: 'library', root: 'libs/database', sourceRoot: 'libs/database/src' },
    },
  }),
  'apps/shop/src/main.ts': String(COMMON_JS[MAIN]),
  'apps/shop/src/app.module.ts': '@Module({ imports: [DatabaseModule] })\nexport class AppModule {}\n',
  'apps/admin/src/main.ts': String(COMMON_JS[MAIN]),
  'apps/admin/src/app.module.ts': options(`TypeOrmModule.forRoot(${POSTGRES})`),
  'libs/database/src/index.ts': `@Module({ imports: [TypeOrmModule.forRoot(${POSTGRES})] })\nexport class DatabaseModule {}\n`,
};

describe('planInit', () => {
  it.each<[string, Files, string[], Files?]>([
    ['a list of migrations', COMMON_JS, [MODULE]],
    ['a list of migrations, MySQL', changed(MODULE, `'postgres'`, `'mysql'`), [MODULE]],
    ['a list of migrations, MariaDB', changed(MODULE, `'postgres'`, `"mariadb" as const`), [MODULE]],
    ['a DataSource in a file of its own', ES_MODULES, ['src/data-source.ts']],
    [
      'a DataSource with options of its own beside those of the module',
      { ...COMMON_JS, [OTHER]: `export const other = new DataSource(${POSTGRES});` },
      [MODULE, OTHER],
    ],
    [
      'forRootAsync with a factory, and a spread beside its migrations',
      {
        ...COMMON_JS,
        [MODULE]: options(`TypeOrmModule.forRootAsync({
      inject: [ConfigService],
      useFactory: async (config: ConfigService) => {
        const url = config.get<string>('DATABASE_URL');
        return { type: 'postgres', url, migrations: ['*.js'], ...(process.env.SSL ? { ssl: true } : {}) };
      },
    })`),
      },
      [MODULE],
    ],
    [
      'forRootAsync with a class or a registered configuration, and another DataSource with a name',
      {
        ...COMMON_JS,
        [MODULE]: options(
          `TypeOrmModule.forRootAsync({ useClass: Other }), TypeOrmModule.forRoot({ name: 'reports', ...${POSTGRES} })`,
        ),
        [OTHER]: `export class Other {\n  createTypeOrmOptions() {\n    return ${POSTGRES};\n  }\n}\n`,
      },
      [OTHER],
    ],
    ['a monorepo with the DataSource in a library', MONOREPO, ['libs/database/src/index.ts'], { project: 'shop' }],
  ])('%s: changes what is to be changed, and nothing twice', (_, files, expected, asked = {}) => {
    make(files);
    const changes = plan(asked);
    const withMigrations = changes.filter(({ after }) => after.includes('...outboxMigrations()'));
    expect(withMigrations.map(({ path }) => relative(folder, path)).sort()).toEqual(expected);
    writeAll(changes);
    expect(plan(asked)).toEqual([]);
  });

  it('keeps every other character of a file, its comments and its ends of lines', () => {
    const text = String(COMMON_JS[MODULE]).replaceAll('\n', '\r\n');
    make({ ...COMMON_JS, [MODULE]: text });
    const lines = planned(MODULE).split('\r\n');
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
  ])('adds to what the application is made with: %j', (given, after) => {
    make(changed(MAIN, 'create(AppModule)', `create(\n    AppModule,\n    ${given})`));
    expect(planned(MAIN)).toContain(after);
    expect(planned(MAIN)).toContain(';\n  app.enableShutdownHooks();\n  await app.listen(');
  });

  const seven = { typescript: join(process.cwd(), 'node_modules/typescript7') };

  it.each(['@nestjs/cli/node_modules/typescript', '@typescript/typescript6'])(
    'reads with %s beside TypeScript 7',
    (six) => {
      make(COMMON_JS, { ...seven, [six]: TYPESCRIPT });
      expect(plan()).toHaveLength(3);
    },
  );

  it('refuses TypeScript 7 alone, and names what to install', () => {
    make(COMMON_JS, seven);
    expect(plan).toThrow('npm install --save-dev @typescript/typescript6.');
  });

  it('refuses a project that is not there, or that is not named, and an entry that is not there', () => {
    make(MONOREPO);
    expect(() => plan({ project: 'nobody' })).toThrow(
      'Give --project with an application of nest-cli.json: shop, admin.',
    );
    expect(() => plan()).toThrow('Give --project with an application of nest-cli.json: shop, admin.');
    expect(() => plan({ project: 'shop', entry: 'start.ts' })).toThrow(
      'start.ts that starts the application is not there.',
    );
  });
});

describe('planInit: what it does not understand', () => {
  it.each<[string, Files, string]>([
    ['a wrong syntax', changed(MODULE, 'export class', 'export klass'), `${MODULE}:19: the syntax is wrong.`],
    ['a computed type', changed(MODULE, `'postgres'`, 'type'), `${MAIN}:1: the application has no TypeOrmModule`],
    ['another database', changed(MODULE, `'postgres'`, `'sqlite'`), `${MAIN}:1: the application has no TypeOrmModule`],
    ['a DataSource with a name', changed(MODULE, 'url:', `name: 'reports', url:`), 'has no TypeOrmModule'],
    ['a second one', { ...COMMON_JS, [OTHER]: `f(${POSTGRES});` }, `${OTHER}:1: there are several DataSources`],
    [
      'migrations that are no list',
      changed(MODULE, 'migrations: [', 'migrations: a ? [] : ['),
      `${MODULE}:11: init cannot`,
    ],
    ['a spread', changed(MODULE, 'migrations: [', '...{}, entities: ['), 'cannot see the list of migrations.'],
    ['migrations elsewhere', { ...COMMON_JS, [OTHER]: 'f({ migrations });' }, `${OTHER}:1: these migrations`],
    [
      'an unknown module',
      changed(MAIN, 'create(AppModule)', 'create(make())'),
      `${MAIN}:5: init cannot see which class`,
    ],
    [
      'imports that are no list',
      changed(MODULE, 'imports: [', 'imports: a ? [] : ['),
      'cannot see the list of imports.',
    ],
    ['providers that are no list', changed(MODULE, ': [AppService]', ''), 'cannot see the list of providers.'],
    [
      'an application without a name',
      changed(MAIN, 'const app = ', ''),
      `${MAIN}:5: the application has no name here.`,
    ],
    ['a file without an application', { ...COMMON_JS, [MAIN]: '' }, `${MAIN}:1: it has no NestFactory.create`],
    [
      'a name of somebody else',
      changed(MODULE, '@Module', 'const inProcess = 1;\n\n@Module'),
      'the name inProcess stands',
    ],
    ['an example that is there', { ...COMMON_JS, 'src/outbox-example.ts': '' }, 'outbox-example.ts is there already'],
  ])('refuses %s, and says what to write by hand', (_, files, text) => {
    make(files);
    expect(plan).toThrow(text);
    expect(plan).toThrow(
      /Nothing was changed\. By hand, add \.\.\.outboxMigrations\(\) .*enableShutdownHooks\(\) to main\.ts/,
    );
  });
});

describe('writeAll: all files, or none', () => {
  it('writes changed files and new ones, and leaves nothing beside them', () => {
    make({ 'a.ts': 'a' });
    writeAll([
      { path: join(folder, 'a.ts'), before: 'a', after: 'changed' },
      { path: join(folder, 'b.ts'), after: 'new' },
    ]);
    expect(['a.ts', 'b.ts'].map((name) => readFileSync(join(folder, name), 'utf8'))).toEqual(['changed', 'new']);
    expect(readdirSync(folder)).toEqual(['a.ts', 'b.ts', 'node_modules']);
  });

  it('changes no file when a later one cannot be written', () => {
    make({ 'a.ts': 'a' });
    const changes = [
      { path: join(folder, 'a.ts'), before: 'a', after: 'changed' },
      { path: join(folder, 'missing', 'b.ts'), after: 'new' },
    ];
    expect(() => writeAll(changes)).toThrow('Nothing was changed: ');
    expect(readFileSync(join(folder, 'a.ts'), 'utf8')).toBe('a');
    expect(readdirSync(folder)).toEqual(['a.ts', 'node_modules']);
  });
});
