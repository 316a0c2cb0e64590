import { definitionOf } from './definition.js';
import { append, styleOf, type Insertion } from './edits.js';
import { refuse } from './refusal.js';
import { isImported, nodesOf, type Sources } from './sources.js';
import type { TypeScript } from './typescript.js';

type Files = readonly TypeScript.SourceFile[];

/** The call that makes the application: `NestFactory.create(AppModule, …)`. @throws CliError the entry has none */
export function factoryCall(sources: Sources): TypeScript.CallExpression {
  const { ts, project } = sources;
  const entry = sources.file(project.entry);
  const call = [...nodesOf(ts, entry)].find(
    (node): node is TypeScript.CallExpression =>
      ts.isCallExpression(node) &&
      node.arguments.length > 0 &&
      ts.isPropertyAccessExpression(node.expression) &&
      isImported(ts, node.expression.expression, '@nestjs/core', 'NestFactory'),
  );
  return (
    call ?? refuse(project.root, entry, 'it has no NestFactory.create(…). Give the file that has it with --entry.')
  );
}

/** With the hooks a signal stops the relay, which gives its leases back; without them it is a crash. */
export function shutdownHooks(sources: Sources, files: Files, call: TypeScript.CallExpression): Insertion[] {
  const { ts, project } = sources;
  if (has(sources, files, 'enableShutdownHooks')) return [];
  let made: TypeScript.Node = call;
  while (!ts.isStatement(made)) made = made.parent;
  const [declared] = ts.isVariableStatement(made) ? made.declarationList.declarations : [];
  if (declared === undefined || !ts.isIdentifier(declared.name))
    return refuse(project.root, call, 'the application has no name here. Call enableShutdownHooks() on it first.');
  const { text } = made.getSourceFile();
  const indent = /[\t ]*$/.exec(text.slice(0, made.getStart()))?.[0] ?? '';
  const at = ts.getTrailingCommentRanges(text, made.end)?.at(-1)?.end ?? made.end;
  const { end } = styleOf(ts, made.getSourceFile());
  return [{ at, text: `\n${indent}${declared.name.text}.enableShutdownHooks()${end}` }];
}

/** Otherwise a client that stays connected holds up the stop. Options that are not written in the sources are left alone. */
export function closedConnections(
  sources: Sources,
  files: Files,
  call: TypeScript.CallExpression,
): { file: TypeScript.SourceFile; insertions: Insertion[] } | undefined {
  const { ts } = sources;
  if (!call.expression.getText().endsWith('.create') || has(sources, files, 'forceCloseConnections')) return undefined;
  const last = call.arguments.at(-1) as TypeScript.Expression;
  const more = call.arguments.slice(1).map((given) => definitionOf(sources, given));
  const options = more.find((given) => ts.isObjectLiteralExpression(given));
  const text = 'forceCloseConnections: true';
  if (options !== undefined) return { file: options.getSourceFile(), insertions: append(ts, options, text) };
  if (!more.every((given) => ts.isNewExpression(given))) return undefined; // not only the adapter of an HTTP server
  return { file: call.getSourceFile(), insertions: [{ at: last.end, text: `, { ${text} }` }] };
}

function has({ ts }: Sources, files: Files, name: string): boolean {
  return files.some((file) => [...nodesOf(ts, file)].some((node) => ts.isIdentifier(node) && node.text === name));
}
