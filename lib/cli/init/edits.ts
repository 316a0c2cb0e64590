import { importOf } from './sources.js';
import type { Api, TypeScript } from './typescript.js';

/** A text that comes into a file: nothing of it is taken away, so its formatting stays. */
export interface Insertion {
  readonly at: number;
  readonly text: string;
}

type List = TypeScript.NodeArray<TypeScript.Node>;

/** As the last of a list or object: on a line of its own where the others are. */
export function append(
  ts: Api,
  owner: TypeScript.ArrayLiteralExpression | TypeScript.ObjectLiteralExpression,
  text: string,
): Insertion[] {
  const file = owner.getSourceFile();
  const list: List = ts.isArrayLiteralExpression(owner) ? owner.elements : owner.properties;
  const last = list.at(-1);
  const isObject = ts.isObjectLiteralExpression(owner);
  if (last === undefined) return [{ at: owner.getStart() + 1, text: isObject ? ` ${text} ` : text }];
  const isOneLine = lineOf(file, last.getStart()) === lineOf(file, owner.getStart());
  if (isOneLine) return [{ at: last.end, text: `, ${text}` }];
  const indent = indentOf(file, last);
  const [own, ...rest] = text.split('\n') as [string, ...string[]];
  const lines = [own, ...rest.map((line) => indent + line)].join('\n');
  const comma = list.hasTrailingComma === true ? list.end : last.end;
  const after = ts.getTrailingCommentRanges(file.text, comma)?.at(-1)?.end ?? comma;
  if (list.hasTrailingComma === true) return [{ at: after, text: `\n${indent}${lines},` }];
  return after === comma
    ? [{ at: comma, text: `,\n${indent}${lines}` }]
    : [
        { at: comma, text: ',' },
        { at: after, text: `\n${indent}${lines}` },
      ];
}

/** Each name of the package: in an import that is there, or in one more. */
export function importNames(
  ts: Api,
  file: TypeScript.SourceFile,
  specifier: string,
  names: readonly string[],
): Insertion[] {
  const missing = names.filter((name) => importOf(ts, file, name)?.specifier !== specifier);
  if (missing.length === 0) return [];
  const imports = file.statements.filter((statement) => ts.isImportDeclaration(statement));
  for (const { moduleSpecifier, importClause } of imports) {
    const bindings = importClause?.namedBindings;
    if (!ts.isStringLiteral(moduleSpecifier) || moduleSpecifier.text !== specifier) continue;
    if (importClause?.isTypeOnly === true || bindings === undefined || !ts.isNamedImports(bindings)) continue;
    const last = bindings.elements.at(-1);
    if (last !== undefined) return [{ at: last.end, text: `, ${missing.join(', ')}` }];
  }
  const { quote, end } = styleOf(ts, file);
  const line = `import { ${missing.join(', ')} } from ${quote}${specifier}${quote}${end}`;
  const last = imports.at(-1);
  return [last === undefined ? { at: file.getFullStart(), text: `${line}\n\n` } : { at: last.end, text: `\n${line}` }];
}

/** Quotes and semicolons as the imports of the file have them. */
export function styleOf(ts: Api, file: TypeScript.SourceFile): { quote: string; end: string } {
  const first = file.statements.find((statement) => ts.isImportDeclaration(statement));
  if (first === undefined) return { quote: `'`, end: ';' };
  return { quote: first.moduleSpecifier.getText().charAt(0), end: first.getText().endsWith(';') ? ';' : '' };
}

/** Whether the name already stands for something else in the file. */
export function isTaken(ts: Api, file: TypeScript.SourceFile, name: string, specifier: string): boolean {
  const imported = importOf(ts, file, name);
  if (imported !== undefined) return imported.specifier !== specifier;
  return file.statements.some((statement) => {
    if (ts.isVariableStatement(statement))
      return statement.declarationList.declarations.some((one) => one.name.getText() === name);
    return (ts.isClassDeclaration(statement) || ts.isFunctionDeclaration(statement)) && statement.name?.text === name;
  });
}

export function withInsertions(text: string, insertions: readonly Insertion[]): string {
  const isCrLf = text.includes('\r\n');
  let from = 0;
  const parts: string[] = [];
  // Two at one place keep the order in which they were asked for.
  for (const { at, text: added } of insertions.toSorted((a, b) => a.at - b.at)) {
    parts.push(text.slice(from, at), isCrLf ? added.replaceAll('\n', '\r\n') : added);
    from = at;
  }
  return parts.join('') + text.slice(from);
}

const lineOf = (file: TypeScript.SourceFile, position: number): number =>
  file.getLineAndCharacterOfPosition(position).line;

/** The white space before the first thing on its line. */
function indentOf(file: TypeScript.SourceFile, node: TypeScript.Node): string {
  const start = file.getPositionOfLineAndCharacter(lineOf(file, node.getStart()), 0);
  return /^[\t ]*/.exec(file.text.slice(start))?.[0] ?? '';
}
