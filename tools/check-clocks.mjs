// No verdict of a test hangs on how fast the machine is. Prints one line for each `expect` that holds time that went by, or CPU that
// was used, against less than a minute; exit code 1 when there is one. A minute says "never", and less says "slowly".
//   // clock: <reason>     on the line, or on the one above: what is compared is no speed of this machine
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
/** Milliseconds: the ceiling that only says "never". */
const NEVER = 60_000;
const CLOCK = /\b(?:performance\.now|Date\.now|process\.(?:hrtime|cpuUsage)|took|elapsed)\b/;
const CEILING = /^toBeLessThan(?:OrEqual)?$/;

export function ceilingsIn(name, text) {
  if (!CLOCK.test(text)) return [];
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
  const lines = text.split('\n');
  const clocks = new Set();
  const out = [];
  const readsClock = (node) =>
    CLOCK.test(node.getText()) || [...clocks].some((each) => new RegExp(`\\b${each}\\b`).test(node.getText()));
  const visit = (node) => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer && isElapsed(node.initializer))
      clocks.add(node.name.text);
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) judge(node);
    ts.forEachChild(node, visit);
  };
  const judge = (call) => {
    const { name: method, expression: subject } = call.expression;
    if (!CEILING.test(method.text) || !readsClock(subject)) return;
    const limit = Number(call.arguments[0]?.getText().replaceAll('_', ''));
    if (limit >= NEVER) return;
    const at = file.getLineAndCharacterOfPosition(method.getStart()).line;
    if ([at, at - 1].some((line) => /\/\/ clock: \S/.test(lines[line] ?? ''))) return;
    out.push(`${name}:${at + 1}: ${lines[at].trim()}`);
  };
  visit(file);
  return out;
}

/** A difference of two times, rather than a time of day. */
function isElapsed(node) {
  return (
    CLOCK.test(node.getText()) && ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.MinusToken
  );
}

function checkAll() {
  const files = execFileSync('git', ['ls-files', 'test/*.ts', 'sample/*.spec.ts'], { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter((name) => name !== '' && !name.startsWith('test/chaos/'));
  const found = files.flatMap((name) => ceilingsIn(name, readFileSync(join(root, name), 'utf8')));
  for (const line of found) console.error(line);
  if (found.length > 0)
    console.error(`${found.length} verdicts hang on the speed of the machine: see tools/check-clocks.mjs`);
  process.exitCode = found.length > 0 ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) checkAll();
