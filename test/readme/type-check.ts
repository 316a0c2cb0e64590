import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { ROOT, type Block } from './documents.js';
import { PRELUDE } from './prelude.js';

/** Beside the repository's own files, so that packages resolve; nothing is written there. */
const FOLDER = join(ROOT, 'test', 'readme', 'virtual');

/** As a Nest application compiles: decorator metadata needs imports that `verbatimModuleSyntax` would refuse. */
const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  skipLibCheck: true,
  noEmit: true,
  types: ['node', 'jest'],
  paths: ownNames(),
};

function ownNames(): Record<string, string[]> {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, string | { require: { types: string } }>;
  };
  const sourceOf = (types: string): string => join(ROOT, types.replace('dist/cjs', 'lib').replace('.d.ts', '.ts'));
  return Object.fromEntries(
    Object.entries(exports).flatMap(([path, target]) =>
      typeof target === 'string' ? [] : [[`nestjs-outbox${path.slice(1)}`, [sourceOf(target.require.types)]]],
    ),
  );
}

/** What the pages use of what `prisma generate` makes. */
const GENERATED = `export declare class PrismaClient {
  constructor(options: { adapter: unknown });
  readonly order: { create(row: { data: { total: number } }): Promise<{ id: number; total: number }> };
  $transaction<T>(work: (tx: Pick<PrismaClient, 'order'>) => Promise<T>, options?: object): Promise<T>;
  $disconnect(): Promise<void>;
}`;

/** What a project without `lib` in its tsconfig.json gets, with the DOM; and what one that is strict about it has. */
const LIBS = { default: undefined, es2023: ['lib.es2023.d.ts'] };

/** @returns one line per error, with the place in the document */
export function typeErrors(blocks: readonly Block[], libs: keyof typeof LIBS = 'default'): string[] {
  const options = { ...OPTIONS, ...(LIBS[libs] && { lib: LIBS[libs] }) };
  // An application with another data layer has other types of its transactions: it is a program of its own, of whole files.
  const isWhole = blocks.some(({ info }) => info !== '');
  const around = isWhole ? ['src/generated/prisma/client.ts', GENERATED] : ['prelude.d.ts', PRELUDE];
  const sources = new Map([[join(FOLDER, around[0] as string), around[1] as string]]);
  const byFile = new Map<string, Block>();
  for (const block of blocks) {
    const file = join(FOLDER, block.file ?? `src/${block.place.replace(/\W+/g, '-')}.ts`);
    if (sources.has(file)) return [`${block.place}: ${block.file} is the name of another block`];
    sources.set(file, block.text);
    byFile.set(file, block);
  }
  const program = ts.createProgram([...sources.keys()], options, hostOf(sources, options));
  const errors = program.getOptionsDiagnostics().map((found) => textOf(found));
  for (const file of sources.keys()) {
    const source = program.getSourceFile(file) as ts.SourceFile;
    for (const found of [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]) {
      errors.push(`${placeOf(byFile.get(file), source, found)}: ${textOf(found)}`);
    }
  }
  return errors;
}

/** Files of packages, and of lib/, are the same for every program here. */
const parsed = new Map<string, ts.SourceFile | undefined>();

function hostOf(sources: ReadonlyMap<string, string>, options: ts.CompilerOptions): ts.CompilerHost {
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, directoryExists, getSourceFile } = host;
  host.getCurrentDirectory = () => ROOT;
  host.fileExists = (file) => sources.has(file) || fileExists(file);
  host.readFile = (file) => sources.get(file) ?? readFile(file);
  host.directoryExists = (folder) => folder.startsWith(FOLDER) || directoryExists?.(folder) === true;
  host.getSourceFile = (file, languageVersion, ...rest) => {
    const text = sources.get(file);
    if (text !== undefined) return ts.createSourceFile(file, text, languageVersion, true);
    if (!parsed.has(file)) parsed.set(file, getSourceFile(file, languageVersion, ...rest));
    return parsed.get(file);
  };
  return host;
}

function placeOf(block: Block | undefined, source: ts.SourceFile, { start = 0 }: ts.Diagnostic): string {
  const line = source.getLineAndCharacterOfPosition(start).line + 1;
  if (block === undefined) return `prelude:${line}`;
  const [, document, fence] = /^(.*):(\d+)$/.exec(block.place) as unknown as [string, string, string];
  return `${document}:${Number(fence) + line}`;
}

function textOf({ messageText }: ts.Diagnostic): string {
  return ts.flattenDiagnosticMessageText(messageText, ' ');
}
