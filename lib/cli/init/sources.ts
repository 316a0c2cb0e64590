import { readFileSync } from 'node:fs';
import { refuse } from './refusal.js';
import type { Project } from './project.js';
import type { Api, TypeScript } from './typescript.js';

/** More than any application has: a walk has an end. */
const MOST_FILES = 5_000;

/** The application's files as syntax trees, each read once. */
export class Sources {
  /** @internal */ readonly files = new Map<string, TypeScript.SourceFile>();

  constructor(
    readonly ts: Api,
    readonly project: Project,
  ) {}

  /** @throws CliError its syntax is wrong */
  file(path: string): TypeScript.SourceFile {
    const known = this.files.get(path);
    if (known !== undefined) return known;
    const parsed = this.parse(path, readFileSync(path, 'utf8'));
    this.files.set(path, parsed);
    return parsed;
  }

  /** @throws CliError its syntax is wrong */
  parse(path: string, text: string): TypeScript.SourceFile {
    const parsed = this.ts.createSourceFile(path, text, this.ts.ScriptTarget.Latest, true);
    // Not in its types; a parser that does not say it accepts everything.
    const { parseDiagnostics = [] } = parsed as { parseDiagnostics?: readonly { start: number }[] };
    const [first] = parseDiagnostics;
    if (first === undefined) return parsed;
    return refuse(this.project.root, tokenAt(this.ts, parsed, first.start), 'the syntax is wrong.');
  }

  /** The file that an import means; `undefined`: a package's, or none. */
  resolve(specifier: string, from: string): string | undefined {
    const { resolvedModule } = this.ts.resolveModuleName(specifier, from, this.project.compiler, this.ts.sys);
    if (resolvedModule === undefined || resolvedModule.isExternalLibraryImport === true) return undefined;
    return resolvedModule.resolvedFileName.endsWith('.d.ts') ? undefined : resolvedModule.resolvedFileName;
  }

  /** All files of the application that this one imports, itself first. */
  reachable(entry: string): TypeScript.SourceFile[] {
    const paths = new Set([entry]);
    for (const path of paths) {
      if (paths.size > MOST_FILES) break;
      for (const specifier of this.specifiers(this.file(path))) {
        const resolved = this.resolve(specifier, path);
        if (resolved !== undefined && /\.[cm]?tsx?$/.test(resolved)) paths.add(resolved);
      }
    }
    return [...paths].map((path) => this.file(path));
  }

  /** @internal */ specifiers(file: TypeScript.SourceFile): string[] {
    const { ts } = this;
    return file.statements.flatMap((statement) => {
      if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) return [];
      const { moduleSpecifier } = statement;
      return moduleSpecifier !== undefined && ts.isStringLiteral(moduleSpecifier) ? [moduleSpecifier.text] : [];
    });
  }
}

/** Each node below, itself first. */
export function* nodesOf(ts: Api, node: TypeScript.Node): Generator<TypeScript.Node> {
  yield node;
  const children: TypeScript.Node[] = [];
  ts.forEachChild(node, (child) => void children.push(child));
  for (const child of children) yield* nodesOf(ts, child);
}

function tokenAt(ts: Api, file: TypeScript.SourceFile, position: number): TypeScript.Node {
  let found: TypeScript.Node = file;
  for (const node of nodesOf(ts, file)) if (node.pos <= position && position < node.end) found = node;
  return found;
}

/** What a name is called in the package or file that a file imports it from. */
export interface Imported {
  readonly specifier: string;
  /** `default`, or `*` for all of it. */
  readonly name: string;
}

/** @returns `undefined`: the file does not import the name */
export function importOf(ts: Api, file: TypeScript.SourceFile, local: string): Imported | undefined {
  for (const statement of file.statements) {
    if (!ts.isImportDeclaration(statement) || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
    const specifier = statement.moduleSpecifier.text;
    const { name, namedBindings } = statement.importClause ?? {};
    if (name?.text === local) return { specifier, name: 'default' };
    if (namedBindings === undefined) continue;
    if (ts.isNamespaceImport(namedBindings)) {
      if (namedBindings.name.text === local) return { specifier, name: '*' };
      continue;
    }
    const found = namedBindings.elements.find((element) => element.name.text === local);
    if (found !== undefined) return { specifier, name: (found.propertyName ?? found.name).text };
  }
  return undefined;
}

/** Whether the expression is this export of this package. */
export function isImported(ts: Api, expression: TypeScript.Node, specifier: string, name: string): boolean {
  const file = expression.getSourceFile();
  if (ts.isPropertyAccessExpression(expression) && ts.isIdentifier(expression.expression)) {
    const all = importOf(ts, file, expression.expression.text);
    return all?.specifier === specifier && all.name === '*' && expression.name.text === name;
  }
  if (!ts.isIdentifier(expression)) return false;
  const imported = importOf(ts, file, expression.text);
  return imported?.specifier === specifier && imported.name === name;
}
