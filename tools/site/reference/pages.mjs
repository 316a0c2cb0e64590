// The API reference: a page for each entry point of the package, from the declarations that are packed. They have the comments that an
// editor shows, and nothing internal. Needs `npm run build`.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..');
const { name, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** What a reader looks for first. */
const KINDS = ['Functions', 'Classes', 'Constants', 'Interfaces', 'Types'];

/** @returns {{ title: string, slug: string, file: string }[]} */
export function entries() {
  return Object.entries(exports)
    .filter(([, target]) => typeof target === 'object')
    .map(([path, target]) => ({
      title: path === '.' ? name : `${name}${path.slice(1)}`,
      slug: path === '.' ? 'main' : path.slice(2),
      file: join(root, target.import.types),
    }));
}

/** @returns {{ slug: string, content: string }[]} */
export function pages() {
  const all = entries();
  const missing = all.filter(({ file }) => !existsSync(file));
  if (missing.length > 0) throw new Error('The API reference is made from dist: run npm run build first.');
  const program = ts.createProgram(
    all.map(({ file }) => file),
    { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, skipLibCheck: true },
  );
  return all.map((entry) => ({ slug: entry.slug, content: pageOf(entry, program) }));
}

function pageOf({ title, file }, program) {
  const checker = program.getTypeChecker();
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file)));
  const sections = exported
    .map((symbol) => sectionOf(symbol.name, aliased(symbol, checker)))
    .sort((a, b) => a.name.localeCompare(b.name));
  const groups = KINDS.flatMap((kind) => {
    const texts = sections.filter((section) => section.kind === kind).map(({ text }) => text);
    return texts.length === 0 ? [] : [`## ${kind}`, ...texts];
  });
  return [`# ${title}`, `The ${exported.length} names of \`import … from '${title}'\`.`, ...groups].join('\n\n');
}

function aliased(symbol, checker) {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

function sectionOf(exportedName, symbol) {
  const declarations = symbol.declarations.map((one) => (ts.isVariableDeclaration(one) ? one.parent.parent : one));
  const code = declarations.map((one) =>
    one
      .getText()
      .replace(/^(export )?(declare )?/, '')
      .replaceAll('\t', '  '),
  );
  const comments = declarations.flatMap((one) => ts.getJSDocCommentsAndTags(one).filter(ts.isJSDoc).map(proseOf));
  const text = [`### ${exportedName}`, ...new Set(comments), `\`\`\`ts\n${code.join('\n')}\n\`\`\``].join('\n\n');
  return { name: exportedName, kind: kindOf(declarations), text };
}

function kindOf(declarations) {
  if (declarations.some(ts.isClassDeclaration)) return 'Classes';
  if (declarations.some(ts.isFunctionDeclaration)) return 'Functions';
  if (declarations.some(ts.isVariableStatement)) return 'Constants';
  return declarations.some(ts.isInterfaceDeclaration) ? 'Interfaces' : 'Types';
}

/** A comment as Markdown, without what Vue would read as a tag or an expression. */
function proseOf(comment) {
  const lines = comment
    .getText()
    .replace(/^\/\*\*|\*\/$/g, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd());
  return lines
    .join('\n')
    .trim()
    .replace(/\{@link ([^}|\s]+)[^}]*\}/g, '`$1`')
    .replace(/^@(\w+) ?(.*)$/gm, '\n- *$1* $2')
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? part : part.replaceAll('{{', '&#123;&#123;').replaceAll('<', '&lt;')))
    .join('');
}
