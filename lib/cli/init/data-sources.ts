import { definitionOf, propertyOf, registered, returned } from './definition.js';
import { refuse } from './refusal.js';
import { importOf, isImported, nodesOf, type Sources } from './sources.js';
import type { TypeScript } from './typescript.js';

type Options = TypeScript.ObjectLiteralExpression;

const DATABASES = ['postgres', 'mysql', 'mariadb'];

/** The options of the DataSource that an application's modules work with: those of the one without a name. */
export function nestOptions(sources: Sources, files: readonly TypeScript.SourceFile[]): Options {
  const { ts } = sources;
  const calls = files.flatMap((file) => callsOf(sources, file));
  const unnamed = calls.filter((call) => !hasName(sources, call));
  const [call, other] = unnamed;
  if (call === undefined) {
    const [place] = files as [TypeScript.SourceFile];
    const what = calls.length === 0 ? 'has no TypeOrmModule.forRoot' : 'has only DataSources with a name';
    refuse(sources.project.root, calls[0] ?? place, `the application that starts here ${what}.`);
  }
  if (other !== undefined)
    refuse(sources.project.root, other, 'there is a second TypeOrmModule.forRoot without a name.');
  const [given] = call.arguments;
  const isAsync = ts.isPropertyAccessExpression(call.expression) && call.expression.name.text === 'forRootAsync';
  const value = given === undefined ? undefined : isAsync ? factoryValue(sources, given) : given;
  return optionsObject(sources, value, call);
}

function callsOf({ ts }: Sources, file: TypeScript.SourceFile): TypeScript.CallExpression[] {
  return [...nodesOf(ts, file)].filter(
    (node): node is TypeScript.CallExpression =>
      ts.isCallExpression(node) &&
      ts.isPropertyAccessExpression(node.expression) &&
      /^forRoot(?:Async)?$/.test(node.expression.name.text) &&
      isImported(ts, node.expression.expression, '@nestjs/typeorm', 'TypeOrmModule'),
  );
}

/** `default` is the one without a name. */
function hasName(sources: Sources, { arguments: [given] }: TypeScript.CallExpression): boolean {
  const object = given === undefined ? undefined : definitionOf(sources, given);
  if (object === undefined || !sources.ts.isObjectLiteralExpression(object)) return false;
  const name = propertyOf(sources, object, 'name');
  return name !== undefined && !(sources.ts.isStringLiteral(name) && name.text === 'default');
}

/** What `useFactory` or `createTypeOrmOptions` gives. */
function factoryValue(sources: Sources, given: TypeScript.Node): TypeScript.Node | undefined {
  const { ts } = sources;
  const asked = definitionOf(sources, given);
  if (!ts.isObjectLiteralExpression(asked)) return asked;
  const factory = propertyOf(sources, asked, 'useFactory');
  if (factory !== undefined) return fromConfig(sources, asked, factory) ?? returned(sources, factory);
  const named = propertyOf(sources, asked, 'useClass') ?? propertyOf(sources, asked, 'useExisting');
  const type = named === undefined ? undefined : definitionOf(sources, named);
  if (type === undefined || !ts.isClassDeclaration(type)) return undefined;
  const method = type.members.find(
    (one) => ts.isMethodDeclaration(one) && 'text' in one.name && one.name.text === 'createTypeOrmOptions',
  );
  return returned(sources, method);
}

/** A factory that gives on what `registerAs(…)` of `@nestjs/config` makes: `inject: [config.KEY]`. */
function fromConfig(sources: Sources, asked: Options, factory: TypeScript.Node): TypeScript.Node | undefined {
  const { ts } = sources;
  const inject = propertyOf(sources, asked, 'inject');
  const work = definitionOf(sources, factory);
  const value = returned(sources, factory);
  if (value === undefined || !ts.isIdentifier(value) || !ts.isFunctionLike(work)) return undefined;
  const index = work.parameters.findIndex(({ name }) => ts.isIdentifier(name) && name.text === value.text);
  const token = inject !== undefined && ts.isArrayLiteralExpression(inject) ? inject.elements[index] : undefined;
  if (token === undefined || !ts.isPropertyAccessExpression(token) || token.name.text !== 'KEY') return undefined;
  return returned(sources, registered(sources, token.expression));
}

/** The options of each `new DataSource(…)`, as TypeORM's own command line has one in a file. */
export function ownOptions(sources: Sources, files: readonly TypeScript.SourceFile[]): Options[] {
  const { ts } = sources;
  return files.flatMap((file) =>
    [...nodesOf(ts, file)].flatMap((node) => {
      if (!ts.isNewExpression(node) || !isImported(ts, node.expression, 'typeorm', 'DataSource')) return [];
      const [given] = node.arguments ?? [];
      // What comes from a parameter is another's: a `dataSourceFactory` gets the options of the module.
      if (given === undefined || isParameter(sources, given)) return [];
      return [optionsObject(sources, given, node)];
    }),
  );
}

function isParameter(sources: Sources, given: TypeScript.Node): boolean {
  const { ts } = sources;
  const found = definitionOf(sources, given);
  return ts.isIdentifier(found) && importOf(ts, found.getSourceFile(), found.text) === undefined;
}

function optionsObject(sources: Sources, value: TypeScript.Node | undefined, place: TypeScript.Node): Options {
  const { ts, project } = sources;
  const found = value === undefined ? undefined : definitionOf(sources, value);
  if (found === undefined || !ts.isObjectLiteralExpression(found))
    return refuse(project.root, place, 'init cannot follow where the options of this DataSource come from.');
  const type = propertyOf(sources, found, 'type');
  const kind = type === undefined ? undefined : definitionOf(sources, type);
  if (kind !== undefined && ts.isStringLiteral(kind) && !DATABASES.includes(kind.text))
    refuse(
      project.root,
      kind,
      `a DataSource of type ${kind.text} cannot hold an outbox. Use one of: ${DATABASES.join(', ')}.`,
    );
  return found;
}

/** Where the options have their migrations. */
export type Migrations =
  | { readonly list: TypeScript.ArrayLiteralExpression }
  /** They have none yet. */
  | { readonly missingIn: Options };

/** @throws CliError it is not to be seen which they have */
export function migrationsOf(sources: Sources, options: Options): Migrations {
  const list = findMigrations(sources, options);
  return list === undefined ? { missingIn: options } : { list };
}

function findMigrations(sources: Sources, options: Options): TypeScript.ArrayLiteralExpression | undefined {
  const { ts, project } = sources;
  // The last one wins.
  for (const property of options.properties.toReversed()) {
    if (ts.isSpreadAssignment(property)) {
      const found = inSpread(sources, property.expression);
      if (found !== undefined) return found;
      continue;
    }
    if (property.name === undefined || !('text' in property.name) || property.name.text !== 'migrations') continue;
    const written = ts.isShorthandPropertyAssignment(property)
      ? property.name
      : ts.isPropertyAssignment(property)
        ? property.initializer
        : property;
    const value = definitionOf(sources, written);
    if (ts.isArrayLiteralExpression(value)) return value;
    refuse(
      project.root,
      property,
      'migrations is no list that is written in the sources. Make it [ …, ...outboxMigrations() ].',
    );
  }
  return undefined;
}

function inSpread(sources: Sources, expression: TypeScript.Node): TypeScript.ArrayLiteralExpression | undefined {
  const { ts, project } = sources;
  const value = definitionOf(sources, expression);
  if (ts.isObjectLiteralExpression(value)) return findMigrations(sources, value);
  // `...(isRemote ? { ssl: true } : {})`, `...(isRemote && { ssl: true })`
  const branches = ts.isConditionalExpression(value)
    ? [value.whenTrue, value.whenFalse]
    : ts.isBinaryExpression(value)
      ? [value.right]
      : [undefined];
  for (const branch of branches) {
    const object = branch === undefined ? undefined : definitionOf(sources, branch);
    if (object !== undefined && ts.isObjectLiteralExpression(object) && findMigrations(sources, object) === undefined)
      continue;
    return refuse(
      project.root,
      expression,
      'init cannot see whether these options have migrations. Write migrations: […] after them.',
    );
  }
  return undefined;
}
