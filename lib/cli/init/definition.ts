import { importOf, isImported, type Sources } from './sources.js';
import type { TypeScript } from './typescript.js';

/** Steps from a name to what it stands for: more is a circle. */
const MOST_STEPS = 30;

/**
 * What an expression stands for: names, imports, functions of which one value comes, and casts are followed.
 * @returns the first node that cannot be followed: an object, a list, a class, a call …
 */
export function definitionOf(sources: Sources, expression: TypeScript.Node): TypeScript.Node {
  let at = expression;
  for (let steps = 0; steps < MOST_STEPS; steps += 1) {
    const next = step(sources, at);
    if (next === undefined) return at;
    at = next;
  }
  return expression;
}

function step(sources: Sources, node: TypeScript.Node): TypeScript.Node | undefined {
  const { ts } = sources;
  if (
    ts.isParenthesizedExpression(node) ||
    ts.isAsExpression(node) ||
    ts.isSatisfiesExpression(node) ||
    ts.isNonNullExpression(node) ||
    ts.isAwaitExpression(node)
  )
    return node.expression;
  if (ts.isIdentifier(node)) return named(sources, node, node.text);
  if (ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node)) return node.initializer;
  if (ts.isPropertyAccessExpression(node)) return member(sources, node);
  if (ts.isCallExpression(node)) return called(sources, node);
  return undefined;
}

/** `options` of a DataSource, and what an object has under a name. */
function member(
  sources: Sources,
  { expression, name }: TypeScript.PropertyAccessExpression,
): TypeScript.Node | undefined {
  const { ts } = sources;
  const owner = definitionOf(sources, expression);
  if (ts.isNewExpression(owner) && name.text === 'options') return owner.arguments?.[0];
  if (!ts.isObjectLiteralExpression(owner) || owner.properties.some((one) => ts.isSpreadAssignment(one)))
    return undefined;
  return propertyOf(sources, owner, name.text);
}

function called(sources: Sources, call: TypeScript.CallExpression): TypeScript.Node | undefined {
  const { ts } = sources;
  const { expression } = call;
  // registerAs() of @nestjs/config.
  if (ts.isPropertyAccessExpression(expression) && expression.name.text === 'asProvider')
    return returned(sources, registered(sources, expression.expression));
  if (!ts.isIdentifier(expression)) return undefined;
  return returned(sources, definitionOf(sources, expression));
}

/** The function of a `registerAs(name, function)`. */
export function registered(sources: Sources, expression: TypeScript.Node): TypeScript.Node | undefined {
  const { ts } = sources;
  const call = definitionOf(sources, expression);
  if (!ts.isCallExpression(call) || !isImported(ts, call.expression, '@nestjs/config', 'registerAs')) return undefined;
  return call.arguments[1];
}

/** The one value that a function gives. @returns `undefined`: none, or several */
export function returned(sources: Sources, node: TypeScript.Node | undefined): TypeScript.Node | undefined {
  const { ts } = sources;
  if (node === undefined) return undefined;
  const work = definitionOf(sources, node);
  if (!ts.isFunctionLike(work) || !('body' in work) || work.body === undefined) return undefined;
  const body = work.body as TypeScript.Node;
  if (!ts.isBlock(body)) return body;
  const values = [...ownNodes(sources, body)].filter((one) => ts.isReturnStatement(one));
  return values.length === 1 ? values[0]?.expression : undefined;
}

/** Without those of functions inside. */
function* ownNodes(sources: Sources, node: TypeScript.Node): Generator<TypeScript.Node> {
  const { ts } = sources;
  yield node;
  if (ts.isFunctionLike(node)) return;
  const children: TypeScript.Node[] = [];
  ts.forEachChild(node, (child) => void children.push(child));
  for (const child of children) yield* ownNodes(sources, child);
}

/** The value of a property that is written in the object itself; of a method: the method. */
export function propertyOf(
  { ts }: Sources,
  object: TypeScript.ObjectLiteralExpression,
  name: string,
): TypeScript.Node | undefined {
  for (const property of object.properties) {
    if (ts.isSpreadAssignment(property) || nameOf(property.name) !== name) continue;
    if (ts.isPropertyAssignment(property)) return property.initializer;
    if (ts.isShorthandPropertyAssignment(property)) return property.name;
    return property;
  }
  return undefined;
}

const nameOf = (name: TypeScript.PropertyName): string | undefined =>
  'text' in name ? (name.text as string) : undefined;

/** A name of this file, the nearest scope first, or of the file that it is imported from. */
function named(sources: Sources, node: TypeScript.Node, name: string): TypeScript.Node | undefined {
  const { ts } = sources;
  for (let scope: TypeScript.Node = node.parent; ; scope = scope.parent) {
    // What a parameter gets is not known here.
    if (ts.isFunctionLike(scope) && scope.parameters.some((one) => ts.isIdentifier(one.name) && one.name.text === name))
      return undefined;
    if (ts.isBlock(scope) || ts.isSourceFile(scope)) {
      const found = declared(sources, scope, name);
      if (found !== undefined) return found;
    }
    if (ts.isSourceFile(scope)) return imported(sources, scope, name);
  }
}

function declared(
  { ts }: Sources,
  scope: TypeScript.Block | TypeScript.SourceFile,
  name: string,
): TypeScript.Node | undefined {
  for (const statement of scope.statements) {
    if (ts.isVariableStatement(statement)) {
      const isConstant = (statement.declarationList.flags & ts.NodeFlags.Const) !== 0;
      const found = statement.declarationList.declarations.find(
        (one) => ts.isIdentifier(one.name) && one.name.text === name,
      );
      if (found?.initializer !== undefined && isConstant) return found;
    }
    if ((ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement)) && statement.name?.text === name)
      return statement;
  }
  return undefined;
}

function imported(sources: Sources, file: TypeScript.SourceFile, name: string): TypeScript.Node | undefined {
  const found = importOf(sources.ts, file, name);
  const path = found === undefined ? undefined : sources.resolve(found.specifier, file.fileName);
  return found === undefined || path === undefined ? undefined : exported(sources, sources.file(path), found.name);
}

/** What a file exports under a name, also what it passes on from another. */
function exported(sources: Sources, file: TypeScript.SourceFile, name: string, depth = 0): TypeScript.Node | undefined {
  const { ts } = sources;
  if (depth > MOST_STEPS) return undefined;
  for (const statement of file.statements) {
    if (name === 'default' && ts.isExportAssignment(statement)) return statement.expression;
    if (name === 'default' && isDefault(sources, statement)) return statement;
    if (!ts.isExportDeclaration(statement)) continue;
    const { moduleSpecifier, exportClause } = statement;
    const list = exportClause !== undefined && ts.isNamedExports(exportClause) ? exportClause.elements : undefined;
    const one = list?.find((element) => element.name.text === name);
    if (list !== undefined && one === undefined) continue;
    const inner = one === undefined ? name : (one.propertyName ?? one.name).text;
    if (moduleSpecifier === undefined) return one?.propertyName ?? one?.name;
    const path = ts.isStringLiteral(moduleSpecifier) ? sources.resolve(moduleSpecifier.text, file.fileName) : undefined;
    const found = path === undefined ? undefined : exported(sources, sources.file(path), inner, depth + 1);
    if (found !== undefined) return found;
  }
  return declared(sources, file, name);
}

function isDefault({ ts }: Sources, statement: TypeScript.Statement): boolean {
  if (!ts.isFunctionDeclaration(statement) && !ts.isClassDeclaration(statement)) return false;
  return statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword) === true;
}

/** The arguments of the decorator of a class, as `@Module({ … })`. */
export function decoratorOf(
  { ts }: Sources,
  declaration: TypeScript.ClassDeclaration,
  specifier: string,
  name: string,
): TypeScript.CallExpression | undefined {
  const calls = (declaration.modifiers ?? []).flatMap((one) =>
    ts.isDecorator(one) && ts.isCallExpression(one.expression) ? [one.expression] : [],
  );
  return calls.find((call) => isImported(ts, call.expression, specifier, name));
}
