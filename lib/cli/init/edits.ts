import { spawnSync } from 'node:child_process';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import type * as TypeScript from 'typescript';
import { errorText } from '../../observe/redact/error-text.js';
import { CliError, EXIT, refuseUsage } from '../exit-code.js';
import type { Application } from './application.js';

/** Of a file that is new, or that has another text `before`. */
export interface Change {
  readonly path: string;
  readonly before?: string;
  readonly after: string;
}

/** Texts that come into files. Nothing of a file is taken away, so its formatting stays. */
export class Edits {
  private readonly files = new Map<TypeScript.SourceFile, { readonly at: number; readonly text: string }[]>();

  constructor(private readonly app: Application) {}

  insert(file: TypeScript.SourceFile, at: number, text: string): void {
    this.files.set(file, [...(this.files.get(file) ?? []), { at, text }]);
  }

  /** To the list of this name, or with one. */
  appendTo(options: TypeScript.ObjectLiteralExpression, name: string, text: string): void {
    const list = this.app.list(options, name);
    this.append(list ?? options, list === undefined ? `${name}: [${text}]` : text);
  }

  /** As the last, behind all comments: on a line of its own where the closing bracket has one. */
  append(owner: TypeScript.ArrayLiteralExpression | TypeScript.ObjectLiteralExpression, text: string): void {
    const file = owner.getSourceFile();
    const list: TypeScript.NodeArray<TypeScript.Node> = 'elements' in owner ? owner.elements : owner.properties;
    const last = list.at(-1);
    if (last === undefined) return this.insert(file, owner.getStart() + 1, text);
    if (!list.hasTrailingComma) this.insert(file, last.end, ',');
    const before = file.text.slice(0, owner.end - 1);
    const lead = /\n\s*$/.test(before) ? `\n${indentOf(last)}` : ' ';
    this.insert(file, before.trimEnd().length, lead + text + (list.hasTrailingComma ? ',' : ''));
  }

  import(file: TypeScript.SourceFile, specifier: string, names: string): void {
    const taken = names.split(', ').find((name) => this.app.mentions(name, file));
    if (taken !== undefined) this.app.refuse(file, `the name ${taken} stands for something else in this file.`);
    const last = file.statements.findLast((statement) => this.app.ts.isImportDeclaration(statement));
    this.insert(file, last?.end ?? 0, `\nimport { ${names} } from '${specifier}';`);
  }

  changes(): Change[] {
    return [...this.files].map(([{ fileName: path, text: before }, insertions]) => {
      const newline = before.includes('\r\n') ? '\r\n' : '\n';
      // Two at one place keep the order in which they were asked for.
      let after = before;
      for (const { at, text } of insertions.toSorted((a, b) => a.at - b.at).toReversed())
        after = after.slice(0, at) + text.replace('\n', newline) + after.slice(at);
      return { path, before, after };
    });
  }
}

/** The white space before the first thing on its line. */
export function indentOf(node: TypeScript.Node): string {
  const before = node.getSourceFile().text.slice(0, node.getStart());
  return /^[\t ]*/.exec(before.slice(before.lastIndexOf('\n') + 1))?.[0] ?? '';
}

/** Files whose changes Git does not have could not be brought back. Without Git, or outside of a repository: none. */
export function refuseUncommitted(root: string, changes: readonly Change[]): void {
  const paths = changes.filter(({ before }) => before !== undefined).map(({ path }) => path);
  const ask = ['status', '--porcelain', '--untracked-files=no', '--', ...paths];
  const { status, stdout } = spawnSync('git', ask, { cwd: root, encoding: 'utf8', timeout: 30_000 });
  if (status !== 0 || stdout === '' || paths.length === 0) return;
  const files = stdout.trimEnd().replaceAll(/^.{3}/gm, '').replaceAll('\n', ', ');
  refuseUsage(`Not committed: ${files}. Commit first, so that you can go back, or give --yes.`);
}

/** All of them, or none: each is beside its file before the first one takes its place. @throws CliError */
export function writeAll(changes: readonly Change[]): void {
  try {
    for (const { path, after } of changes) writeFileSync(`${path}.init.tmp`, after);
  } catch (error) {
    for (const { path } of changes) rmSync(`${path}.init.tmp`, { force: true });
    throw new CliError(EXIT.failed, `Nothing was changed: ${errorText(error)}`, { cause: error });
  }
  for (const { path } of changes) renameSync(`${path}.init.tmp`, path);
}
