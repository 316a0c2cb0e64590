import { existsSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { migrationsOf, nestOptions, ownOptions } from './data-sources.js';
import { decoratorOf, definitionOf, propertyOf } from './definition.js';
import { append, importNames, isTaken, styleOf, withInsertions, type Insertion } from './edits.js';
import { closedConnections, factoryCall, shutdownHooks } from './entry.js';
import { EXAMPLE_CLASS, EXAMPLE_FILE, exampleText } from './example.js';
import { refuse } from './refusal.js';
import { isImported, nodesOf, type Sources } from './sources.js';
import { moduleCall, type TransportText } from './transport.js';
import type { TypeScript } from './typescript.js';

/** What `init` would write. Nothing is written by making it. */
export interface Plan {
  readonly changes: readonly Change[];
  /** What was there already. */
  readonly found: readonly string[];
  /** The application's start runs its migrations (`migrationsRun: true`). */
  readonly runsMigrations: boolean;
}
export interface Change {
  /** Absolute. */
  readonly path: string;
  /** `undefined`: it is a new file. */
  readonly before: string | undefined;
  readonly after: string;
}

/** @throws CliError a file is not understood */
export function planInit(sources: Sources, transport: TransportText, withExample: boolean): Plan {
  const { project } = sources;
  const edits = new Edits(sources);
  const found: string[] = [];
  const files = sources.reachable(project.entry);
  const call = factoryCall(sources);
  const application = nestOptions(sources, files);
  addMigrations(sources, files, application, edits, found);
  const created = addModule(sources, files, edits, found, rootModule(sources, call), transport, withExample);
  const closed = closedConnections(sources, files, call);
  if (closed !== undefined) edits.add(closed.file, closed.insertions);
  edits.add(call.getSourceFile(), shutdownHooks(sources, files, call));
  const runs = propertyOf(sources, application, 'migrationsRun');
  const runsMigrations = runs?.kind === sources.ts.SyntaxKind.TrueKeyword;
  return { changes: [...edits.changes(), ...created], found, runsMigrations };
}

function addMigrations(
  sources: Sources,
  files: readonly TypeScript.SourceFile[],
  application: TypeScript.ObjectLiteralExpression,
  edits: Edits,
  found: string[],
): void {
  const { ts, project } = sources;
  const own = ownOptions(sources, dataSourceFiles(sources, files)).filter((options) => options !== application);
  const others = [...new Set(own)];
  if (others[1] !== undefined)
    refuse(project.root, others[1], 'there are several DataSources beside the one of the modules: which one is it?');
  const places = [application, ...others].map((options) => migrationsOf(sources, options));
  for (const place of new Map(places.map((each) => ['list' in each ? each.list : each.missingIn, each])).values()) {
    const node = 'list' in place ? place.list : place.missingIn;
    const file = node.getSourceFile();
    if ('list' in place && place.list.elements.some((one) => isMigrations(sources, one))) {
      found.push(`${relative(project.root, file.fileName)} has the migrations of the outbox`);
      continue;
    }
    edits.import(file, 'nestjs-outbox/typeorm', 'outboxMigrations', node);
    const text = 'list' in place ? '...outboxMigrations()' : 'migrations: [...outboxMigrations()]';
    edits.add(file, append(ts, node, text));
  }
}

function isMigrations({ ts }: Sources, element: TypeScript.Node): boolean {
  return [...nodesOf(ts, element)].some(
    (node) => ts.isCallExpression(node) && isImported(ts, node.expression, 'nestjs-outbox/typeorm', 'outboxMigrations'),
  );
}

/** Also those that only TypeORM's command line reads: of this application and of the root, tests apart. */
function dataSourceFiles(sources: Sources, files: readonly TypeScript.SourceFile[]): TypeScript.SourceFile[] {
  const { ts, project } = sources;
  const isMonorepo = project.folder !== project.root;
  const skipped = ['**/node_modules', '**/dist', '**/test', '**/*.spec.ts', '**/*.test.ts', '**/*.d.ts'];
  const read = (folder: string, depth?: number): string[] =>
    ts.sys.readDirectory(folder, ['.ts'], skipped, ['**/*'], depth);
  const paths = isMonorepo ? [...read(project.folder), ...read(project.root, 1)] : read(project.root);
  const known = new Set(files.map(({ fileName }) => fileName));
  const others = paths
    .map((path) => path.split('/').join(sep))
    .filter((path) => !known.has(path) && mentions(sources, path));
  return [...files, ...others.map((path) => sources.file(path))];
}

/** A look at the text saves the parsing of all files; what is found is read by its tree. */
const mentions = ({ ts }: Sources, path: string): boolean => ts.sys.readFile(path)?.includes('DataSource') === true;

function addModule(
  sources: Sources,
  files: readonly TypeScript.SourceFile[],
  edits: Edits,
  found: string[],
  { file, options }: RootModule,
  transport: TransportText,
  withExample: boolean,
): Change[] {
  const { ts, project } = sources;
  const known = files.find((file) => [...nodesOf(ts, file)].some((node) => isOutboxModule(sources, node)));
  if (known !== undefined) {
    found.push(`${relative(project.root, known.fileName)} imports OutboxModule`);
    return [];
  }
  edits.import(file, 'nestjs-outbox', 'OutboxModule', options);
  edits.import(file, transport.specifier, transport.name, options);
  const pieces = { imports: moduleCall(transport, project.name), ...(withExample ? { providers: EXAMPLE_CLASS } : {}) };
  addToModule(sources, options, pieces, edits);
  if (!withExample) return [];
  const path = join(dirname(file.fileName), `${EXAMPLE_FILE}.ts`);
  if (existsSync(path))
    refuse(project.root, options, `beside this file ${EXAMPLE_FILE}.ts is there already. Give --no-example.`);
  edits.import(file, `./${EXAMPLE_FILE}${suffixOf(sources, file)}`, EXAMPLE_CLASS, options);
  return [{ path, before: undefined, after: exampleText(transport, styleOf(ts, file)) }];
}

const isOutboxModule = ({ ts }: Sources, node: TypeScript.Node): boolean =>
  ts.isCallExpression(node) &&
  ts.isPropertyAccessExpression(node.expression) &&
  isImported(ts, node.expression.expression, 'nestjs-outbox', 'OutboxModule');

interface RootModule {
  readonly file: TypeScript.SourceFile;
  /** Of its decorator. */
  readonly options: TypeScript.ObjectLiteralExpression;
}

/** The module that the entry gives to `NestFactory`. */
function rootModule(sources: Sources, call: TypeScript.CallExpression): RootModule {
  const { ts, project } = sources;
  const declaration = definitionOf(sources, call.arguments[0] as TypeScript.Expression);
  if (!ts.isClassDeclaration(declaration))
    return refuse(project.root, call, 'init cannot follow which module this is.');
  const decorator = decoratorOf(sources, declaration, '@nestjs/common', 'Module');
  const argument = decorator?.arguments[0];
  const options = argument === undefined ? undefined : definitionOf(sources, argument);
  if (options === undefined || !ts.isObjectLiteralExpression(options))
    return refuse(project.root, declaration, 'the class has no @Module({ … }).');
  return { file: options.getSourceFile(), options };
}

/** Into its lists; those that it does not have come with one insertion. */
function addToModule(
  sources: Sources,
  options: TypeScript.ObjectLiteralExpression,
  pieces: Readonly<Record<string, string>>,
  edits: Edits,
): void {
  const { ts, project } = sources;
  const missing: string[] = [];
  for (const [name, text] of Object.entries(pieces)) {
    const written = propertyOf(sources, options, name);
    if (written === undefined) {
      const spread = options.properties.find((one) => ts.isSpreadAssignment(one));
      if (spread !== undefined) refuse(project.root, spread, `init cannot see whether these options have ${name}.`);
      missing.push(`${name}: [${text}]`);
      continue;
    }
    const list = definitionOf(sources, written);
    if (!ts.isArrayLiteralExpression(list) || list.getSourceFile() !== options.getSourceFile())
      return refuse(project.root, written, `${name} is no list that is written in this file.`);
    edits.add(list.getSourceFile(), append(ts, list, text));
  }
  if (missing.length > 0) edits.add(options.getSourceFile(), append(ts, options, missing.join(', ')));
}

/** How the application ends the names of its own files in imports: `.js`, `.ts` or nothing. */
function suffixOf(sources: Sources, file: TypeScript.SourceFile): string {
  const { ts, project } = sources;
  for (const known of [file, sources.files.get(project.entry)]) {
    for (const statement of known?.statements ?? []) {
      if (!ts.isImportDeclaration(statement) || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
      const { text } = statement.moduleSpecifier;
      if (/^\.{1,2}\//.test(text)) return /\.[cm]?[jt]s$/.exec(text)?.[0] ?? '';
    }
  }
  return project.isModule ? '.js' : '';
}

/** Collects what comes into each file. */
class Edits {
  /** @internal */ readonly files = new Map<TypeScript.SourceFile, Insertion[]>();
  /** @internal */ readonly names = new Map<TypeScript.SourceFile, Map<string, string[]>>();

  constructor(/** @internal */ readonly sources: Sources) {}

  add(file: TypeScript.SourceFile, insertions: readonly Insertion[]): void {
    if (insertions.length > 0) this.files.set(file, [...(this.files.get(file) ?? []), ...insertions]);
  }

  /** @param place what needs the name */
  import(file: TypeScript.SourceFile, specifier: string, name: string, place: TypeScript.Node): void {
    const { ts, project } = this.sources;
    if (isTaken(ts, file, name, specifier))
      refuse(project.root, place, `the name ${name} stands for something else in this file.`);
    const names = this.names.get(file) ?? new Map<string, string[]>();
    names.set(specifier, [...(names.get(specifier) ?? []), name]);
    this.names.set(file, names);
  }

  /** @throws CliError what would be written has a wrong syntax */
  changes(): Change[] {
    return [...this.files].map(([file, edits]) => {
      const { fileName: path, text: before } = file;
      const imports = [...(this.names.get(file) ?? [])].flatMap(([specifier, names]) =>
        importNames(this.sources.ts, file, specifier, [...new Set(names)]),
      );
      const after = withInsertions(before, [...imports, ...edits]);
      this.sources.parse(path, after);
      return { path, before, after };
    });
  }
}
